"""Asks the installed cuDNN which engines it would take for a convolution, for a GPU that need not be there.

usage: engines.py LIBRARY PROPERTIES    (a process of its own; standard input is a Unix socket that listens)

A request is a line of numbers (`crates/nullgpu-core`, `cudnn/installed`): the kind of the operation, the mode of the heuristics (or, if
negative, the inverted number of the only engine in question), the type to compute in, the number of dimensions; of input, filter and output
each the type, the alignment, the sizes and the strides; then the strides, the paddings before and after, and the dilations. The answer is a
line with `BYTES:NOTES` for each engine, best first: its workspace, and its numerical notes as bits. `:TILE:WORKSPACE:ROWS:COLUMNS`, the knobs
of these names, follow for an engine that works in clusters. The answer is `?` if cuDNN refuses. Without a cuDNN that can be asked this
process ends.

cuDNN does this from version 9.8 on ("device-less ahead-of-time compilation"): its heuristics need the properties of a GPU alone.
"""

import ctypes
import os
import socket
import sys
import threading

# `cudnnBackendDescriptorType_t`
CONVOLUTION, ENGINE, CONFIGURATION, HEURISTICS, KNOB, GRAPH, TENSOR, PROPERTIES = 1, 2, 3, 4, 7, 15, 17, 38
# `cudnnBackendAttributeType_t`
DATA_TYPE, INT64, FLOAT, CONVOLUTION_MODE, HEURISTICS_MODE, KNOB_TYPE = 1, 3, 4, 7, 8, 9
NUMERICAL_NOTE, DESCRIPTOR, CHARACTERS = 11, 15, 24
# `cudnnBackendKnobType_t`: the tile, how the workspace is used, and the rows and columns of a cluster.
TILING = (2, 25, 27, 28)
# Attributes of an operation: the convolution, filter, input and output, and the factors alpha and beta.
OPERATIONS = {
    10: (702, 703, 704, 705, 700, 701),
    11: (714, 715, 716, 717, 712, 713),
    12: (708, 709, 710, 711, 706, 707),
}
CROSS_CORRELATION = 1
ENGINES_MAX = 128
NOTES_MAX = 32
KNOBS_MAX = 32


class Refused(Exception):
    """cuDNN does not do this."""


class Cudnn:
    """A loaded cuDNN, and the GPU that it is asked about."""

    def __init__(self, library, properties):
        self.library = ctypes.CDLL(library, mode=ctypes.RTLD_GLOBAL)
        pointer, number = ctypes.c_void_p, ctypes.c_int64
        self.library.cudnnBackendCreateDescriptor.argtypes = [ctypes.c_int, pointer]
        self.library.cudnnBackendSetAttribute.argtypes = [pointer, ctypes.c_int, ctypes.c_int, number, pointer]
        self.library.cudnnBackendGetAttribute.argtypes = [pointer, ctypes.c_int, ctypes.c_int, number, pointer, pointer]
        self.library.cudnnBackendFinalize.argtypes = [pointer]
        self.library.cudnnBackendDestroyDescriptor.argtypes = [pointer]
        self.made = []
        text = properties.encode()
        self.properties = self.create(PROPERTIES)
        self.set(self.properties, 2702, CHARACTERS, (ctypes.c_char * len(text))(*text))
        self.finish(self.properties)
        self.knobs = (ctypes.c_void_p * KNOBS_MAX)(*(self.create(KNOB) for _ in range(KNOBS_MAX)))
        # These stay.
        self.made.clear()

    def check(self, status):
        if status:
            raise Refused(status)

    def create(self, kind):
        made = ctypes.c_void_p()
        self.check(self.library.cudnnBackendCreateDescriptor(kind, ctypes.byref(made)))
        self.made.append(made.value)
        return made.value

    def set(self, descriptor, name, kind, values):
        self.check(self.library.cudnnBackendSetAttribute(descriptor, name, kind, len(values), values))

    def integers(self, descriptor, name, values):
        self.set(descriptor, name, INT64, (ctypes.c_int64 * len(values))(*values))

    def enumerated(self, descriptor, name, kind, value):
        self.set(descriptor, name, kind, (ctypes.c_int * 1)(value))

    def refer(self, descriptor, name, other):
        self.set(descriptor, name, DESCRIPTOR, (ctypes.c_void_p * 1)(other))

    def finish(self, descriptor):
        self.check(self.library.cudnnBackendFinalize(descriptor))

    def get(self, descriptor, name, kind, room):
        """Fills `room`, an array, and says how many there are."""
        count = ctypes.c_int64()
        self.check(self.library.cudnnBackendGetAttribute(descriptor, name, kind, len(room), ctypes.byref(count), room))
        return min(count.value, len(room))

    def tensor(self, number, numbers, rank):
        kind, alignment, *extents = (next(numbers) for _ in range(2 + 2 * rank))
        tensor = self.create(TENSOR)
        self.enumerated(tensor, 901, DATA_TYPE, kind)
        self.integers(tensor, 902, extents[:rank])
        self.integers(tensor, 903, extents[rank:])
        self.integers(tensor, 906, [number])
        self.integers(tensor, 900, [alignment])
        self.finish(tensor)
        return tensor

    def graph(self, numbers, kind, precision):
        """A graph of one convolution."""
        rank = next(numbers)
        source, weights, result = (self.tensor(number, numbers, rank) for number in (1, 2, 3))
        windows = [[next(numbers) for _ in range(rank - 2)] for _ in range(4)]
        convolution = self.create(CONVOLUTION)
        self.enumerated(convolution, 100, DATA_TYPE, precision)
        self.enumerated(convolution, 101, CONVOLUTION_MODE, CROSS_CORRELATION)
        self.integers(convolution, 106, [rank - 2])
        for name, values in zip((103, 105, 104, 102), windows):
            self.integers(convolution, name, values)
        self.finish(convolution)
        how, filters, inputs, outputs, alpha, beta = OPERATIONS[kind]
        operation = self.create(kind)
        for name, other in ((how, convolution), (filters, weights), (inputs, source), (outputs, result)):
            self.refer(operation, name, other)
        for name, value in ((alpha, 1.0), (beta, 0.0)):
            self.set(operation, name, FLOAT, (ctypes.c_float * 1)(value))
        self.finish(operation)
        graph = self.create(GRAPH)
        self.refer(graph, 801, operation)
        self.finish(graph)
        return graph

    def engines(self, numbers):
        """What is said of each engine."""
        kind, mode, precision = (next(numbers) for _ in range(3))
        graph = self.graph(numbers, kind, precision)
        if mode < 0:
            return [self.engine(self.configuration(graph, ~mode))]
        heuristics = self.create(HEURISTICS)
        self.refer(heuristics, 201, graph)
        self.enumerated(heuristics, 200, HEURISTICS_MODE, mode)
        self.refer(heuristics, 204, self.properties)
        self.finish(heuristics)
        count = ctypes.c_int64()
        self.check(self.library.cudnnBackendGetAttribute(heuristics, 202, DESCRIPTOR, 0, ctypes.byref(count), None))
        room = min(count.value, ENGINES_MAX)
        configurations = (ctypes.c_void_p * room)(*(self.create(CONFIGURATION) for _ in range(room)))
        found = self.get(heuristics, 202, DESCRIPTOR, configurations) if room else 0
        return [self.engine(configuration) for configuration in configurations[:found]]

    def configuration(self, graph, number):
        """An engine as it is set up without wishes."""
        engine = self.create(ENGINE)
        self.refer(engine, 1300, graph)
        self.integers(engine, 1301, [number])
        self.refer(engine, 1307, self.properties)
        self.finish(engine)
        configuration = self.create(CONFIGURATION)
        self.refer(configuration, 300, engine)
        self.finish(configuration)
        return configuration

    def engine(self, configuration):
        workspace = (ctypes.c_int64 * 1)()
        self.get(configuration, 303, INT64, workspace)
        engine = (ctypes.c_void_p * 1)(self.create(ENGINE))
        self.get(configuration, 300, DESCRIPTOR, engine)
        notes = (ctypes.c_int * NOTES_MAX)()
        count = self.get(engine[0], 1303, NUMERICAL_NOTE, notes)
        choices = self.choices(configuration)
        tiling = [choices[knob] for knob in TILING] if all(knob in choices for knob in TILING) else []
        return [workspace[0], sum(1 << note for note in notes[:count]), *tiling]

    def choices(self, configuration):
        """The values of its knobs."""
        count = self.get(configuration, 302, DESCRIPTOR, self.knobs)
        name, value = (ctypes.c_int * 1)(), (ctypes.c_int64 * 1)()
        chosen = {}
        for knob in self.knobs[:count]:
            self.get(knob, 600, KNOB_TYPE, name)
            self.get(knob, 601, INT64, value)
            chosen[name[0]] = value[0]
        return chosen

    def answer(self, line):
        try:
            return " ".join(":".join(map(str, engine)) for engine in self.engines(map(int, line.split())))
        except (Refused, KeyError, RuntimeError, StopIteration, ValueError):
            return "?"
        finally:
            for descriptor in reversed(self.made):
                self.library.cudnnBackendDestroyDescriptor(descriptor)
            self.made.clear()


class Server:
    """Answers all processes of a run. cuDNN is loaded when the first of them asks."""

    def __init__(self, library, properties):
        self.library, self.properties, self.cudnn, self.lock = library, properties, None, threading.Lock()

    def loaded(self):
        """The cuDNN; this process ends if there is none that can be asked, so that nobody waits for an answer."""
        try:
            return Cudnn(self.library, self.properties)
        except (AttributeError, OSError, Refused):
            os._exit(1)

    def serve(self, connection):
        with connection, connection.makefile("rw", encoding="ascii", newline="\n") as stream:
            for line in stream:
                with self.lock:
                    self.cudnn = self.cudnn or self.loaded()
                    answer = self.cudnn.answer(line)
                stream.write(answer + "\n")
                stream.flush()


def main():
    server = Server(*sys.argv[1:3])
    with socket.socket(fileno=0) as listener:
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=server.serve, args=(connection,), daemon=True).start()


if __name__ == "__main__":
    main()
