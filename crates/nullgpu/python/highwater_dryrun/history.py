"""The history of all allocations of this process, whatever the program records for itself.

PyTorch keeps one history in a process. This module has it kept from the first allocation on, without a bound, and gives the
program what it would have got: nothing before it asks, no more entries than it asks for, no frames of what was there before.

Source: `torch/csrc/cuda/memory_snapshot.cpp` and `CachingAllocator::recordHistory`, PyTorch 2.4 to 2.15: starting anew without
`clear_history` goes on with the entries that are there, and stopping throws them away.
"""

from __future__ import annotations

import functools
import inspect
import os
import sys
from collections.abc import Callable
from typing import Any

_MAX = sys.maxsize
_HERE = os.path.dirname(os.path.abspath(__file__))


class History:
    """The one history. Made when torch is imported; it begins when CUDA is initialised, before anything is allocated."""

    def __init__(self, torch: Any) -> None:
        self._cuda = torch.cuda
        native = self._native = torch._C
        self._start_native = native._cuda_record_memory_history
        self._take_native = _without_inductor(torch, native._cuda_memorySnapshot)
        self._earlier: "list[list[list[dict[str, Any]]]]" = []
        """What was cut off to show the program its own part: the traces of all devices, oldest first."""
        self._theirs: "_Theirs | None" = None
        native._cuda_record_memory_history = self._program_starts
        native._cuda_memorySnapshot = self._program_looks
        if hasattr(native, "_cuda_isHistoryEnabled"):
            native._cuda_isHistoryEnabled = lambda: self._theirs is not None

    def begin(self) -> None:
        """Begins to record."""
        self._start_ours()

    def whole(self) -> "dict[str, Any]":
        """The snapshot as it is now, with every entry since the beginning."""
        snapshot = self._take()
        traces = snapshot["device_traces"]
        for device, trace in enumerate(traces):
            cut = [entry for earlier in self._earlier if device < len(earlier) for entry in earlier[device]]
            if cut:
                traces[device] = cut + trace
        return snapshot

    def _take(self) -> "dict[str, Any]":
        try:
            snapshot: "dict[str, Any]" = self._take_native(None)
        except TypeError:
            # Before 2.8 it took nothing.
            snapshot = self._take_native()
        _drop_our_frames(snapshot)
        return snapshot

    def _start_ours(self) -> None:
        """Starts an empty history that has all we want to know."""
        start = self._cuda.memory._record_memory_history_impl
        wanted = {"enabled": "all", "context": "alloc", "stacks": "python", "max_entries": _MAX}
        # Annotations tell the iterations.
        newer = {"clear_history": True, "global_record_annotations": True}
        known = inspect.signature(start).parameters
        programs = self._native._cuda_record_memory_history
        self._native._cuda_record_memory_history = self._start_native
        try:
            if "clear_history" not in known:
                start(enabled=None)
            start(**wanted, **{name: value for name, value in newer.items() if name in known})
        finally:
            self._native._cuda_record_memory_history = programs

    def _cut(self) -> None:
        """Puts what there is aside, before it is cleared."""
        self._earlier.append(self._take()["device_traces"])

    def _program_starts(self, *arguments: Any) -> None:
        """In the place of PyTorch's function: enabled, context, stacks, most entries, and since 2.7 whether to clear, and more."""
        # As PyTorch's own does; ours begins then.
        self._cuda._lazy_init()
        enabled, context, stacks, max_entries, *newer = arguments
        if enabled is None:
            if self._theirs is not None:
                self._cut()
                self._theirs = None
                self._start_ours()
            return
        anew = self._theirs is None or bool(newer and newer[0])
        if anew:
            self._cut()
            self._start_native(None, *arguments[1:])
        # What the program does without is recorded all the same: where memory was allocated.
        self._start_native(enabled, context if context in ("alloc", "all") else "alloc", stacks, _MAX, *newer)
        snapshot = self._take()
        theirs = _Theirs(_live(snapshot)) if self._theirs is None or anew else self._theirs
        theirs.goes_on(max_entries, context, [len(trace) for trace in snapshot["device_traces"]])
        self._theirs = theirs

    def _program_looks(self, *arguments: Any) -> "dict[str, Any]":
        """In the place of PyTorch's function, with its arguments."""
        self._cuda._lazy_init()
        snapshot: "dict[str, Any]" = self._take_native(*arguments)
        _drop_our_frames(snapshot)
        traces = snapshot["device_traces"]
        theirs = self._theirs
        if theirs is None:
            snapshot["device_traces"] = [[] for _ in traces]
            _drop_frames(snapshot, None)
            return snapshot
        _drop_frames(snapshot, _still_there(theirs.before, traces) | theirs.without_frames(traces))
        if theirs.max_entries < _MAX:
            snapshot["device_traces"] = [trace[-theirs.max_entries :] if theirs.max_entries else [] for trace in traces]
        return snapshot


def _without_inductor(torch: Any, take: "Callable[..., dict[str, Any]]") -> "Callable[..., dict[str, Any]]":
    """PyTorch asks Inductor for the lines of compiled code, and imports it for that: seconds, and sympy. Where it was not imported,
    nothing was compiled.

    Source: `py_symbolize` in `torch/csrc/profiler/python/combined_traceback.cpp`, which looks whether torch has the attribute.
    """

    @functools.wraps(take)
    def wrapped(*arguments: Any) -> "dict[str, Any]":
        imported_when_asked_for = getattr(torch, "_lazy_modules", None)
        if "torch._inductor" in sys.modules or not imported_when_asked_for or "_inductor" not in imported_when_asked_for:
            return take(*arguments)
        imported_when_asked_for.discard("_inductor")
        try:
            return take(*arguments)
        finally:
            imported_when_asked_for.add("_inductor")

    return wrapped


class _Theirs:
    """What the program asked for."""

    def __init__(self, before: "set[tuple[int, int]]") -> None:
        self.max_entries = _MAX
        self.before = before
        """Device and address of the blocks that were there when it asked."""
        self._contexts: "list[tuple[str | None, list[int]]]" = []
        """Of what it asked for stacks, each with the lengths of the traces when it did."""

    def goes_on(self, max_entries: int, context: "str | None", lengths: "list[int]") -> None:
        """It asks, for the first time or anew, when the traces had these lengths."""
        self.max_entries = max_entries
        self._contexts.append((context, lengths))

    def without_frames(self, traces: "list[list[dict[str, Any]]]") -> "set[tuple[int, int]]":
        """Takes the frames of entries for which it asked for none; gives device and address of the blocks that have none either."""
        bare = set()
        for device, trace in enumerate(traces):
            starts = [lengths[device] if device < len(lengths) else 0 for _, lengths in self._contexts]
            ends = [*starts[1:], len(trace)]
            for (context, _), start, end in zip(self._contexts, starts, ends):
                for entry in trace[start:end]:
                    place = (device, entry["addr"])
                    if context in (None, "state"):
                        # The stacks of "state" are those of blocks that are in use.
                        entry.pop("frames", None)
                    if entry["action"] == "alloc" and context is None:
                        bare.add(place)
                    elif entry["action"] == "free_completed":
                        bare.discard(place)
        return bare


def _blocks(snapshot: "dict[str, Any]") -> "list[tuple[tuple[int, int], dict[str, Any]]]":
    """The blocks that are in use, by device and address."""
    found = []
    for segment in snapshot["segments"]:
        address = segment["address"]
        for block in segment["blocks"]:
            if block["state"] != "inactive":
                found.append(((segment["device"], block.get("address", address)), block))
            address += block["size"]
    return found


def _live(snapshot: "dict[str, Any]") -> "set[tuple[int, int]]":
    return {place for place, _ in _blocks(snapshot)}


def _still_there(before: "set[tuple[int, int]]", traces: "list[list[dict[str, Any]]]") -> "set[tuple[int, int]]":
    """Which of those blocks were not freed since."""
    freed = {
        (device, entry["addr"])
        for device, trace in enumerate(traces)
        for entry in trace
        if entry["action"] == "free_completed"
    }
    return before - freed


def _drop_frames(snapshot: "dict[str, Any]", of: "set[tuple[int, int]] | None") -> None:
    """Takes the frames from these blocks, or from all: nobody had asked for them."""
    for place, block in _blocks(snapshot):
        if of is None or place in of:
            if "frames" in block:
                block["frames"] = []
            for history in block.get("history", []):
                history.pop("frames", None)


def _frames_of_theirs(frames: "list[Any]") -> "list[Any]":
    """The frames, innermost first, that are there without ours. A function of PyTorch's that is written in Python asks first whether
    anyone looks at it, and is then called a second time by whoever does: of the two calls, the inner one is the program's."""
    theirs: "list[Any]" = []
    position = 0
    while position < len(frames):
        if not frames[position]["filename"].startswith(_HERE):
            theirs.append(frames[position])
            position += 1
            continue
        position += 1
        caller = _next_of_python(frames, position)
        if caller < len(frames) and frames[caller]["name"] == "handle_torch_function":
            position = _past_the_repeated(theirs, frames, caller + 1)
    return theirs


def _past_the_repeated(inside: "list[Any]", frames: "list[Any]", position: int) -> int:
    """Where the frames end that are the same functions, in the same order, as the last ones of `inside`."""
    last: "list[tuple[str, str]]" = []
    here: "list[tuple[str, str]]" = []
    after = position
    for frame in reversed(inside):
        if not _is_of_python(frame):
            continue
        last.insert(0, (frame["filename"], frame["name"]))
        after = _next_of_python(frames, after)
        if after == len(frames):
            break
        here.append((frames[after]["filename"], frames[after]["name"]))
        after += 1
        if here == last:
            return after
    return position


def _next_of_python(frames: "list[Any]", position: int) -> int:
    """The first frame of Python from there on, or the end."""
    while position < len(frames) and not _is_of_python(frames[position]):
        position += 1
    return position


def _is_of_python(frame: "dict[str, Any]") -> bool:
    return bool(frame["filename"].endswith(".py"))


def _drop_our_frames(snapshot: "dict[str, Any]") -> None:
    """Takes the frames out that are there only because functions are looked at."""
    cleaned: "dict[int, list[Any]]" = {}

    def clean(holder: "dict[str, Any]") -> None:
        frames = holder.get("frames")
        if not frames:
            return
        known = cleaned.get(id(frames))
        if known is None:
            known = _frames_of_theirs(frames)
            cleaned[id(frames)] = known = frames if len(known) == len(frames) else known
        holder["frames"] = known

    for trace in snapshot["device_traces"]:
        for entry in trace:
            clean(entry)
    for segment in snapshot["segments"]:
        clean(segment)
        for block in segment["blocks"]:
            clean(block)
            for history in block.get("history", ()):
                clean(history)
