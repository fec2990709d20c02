"""Runs commands on an input, and says what is wrong with each run."""

import csv
import io
import json
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

# Memory that a run may hold beyond what the program holds that does nothing: an unoptimised one has many more pages. And a multiple of
# the bytes that it has to read.
ROOM_KIB = 20 << 10
MULTIPLE = 30
# Characters that change a terminal or the direction of writing.
UNSAFE = {chr(code) for code in [*range(32), 0x7F, *range(0x80, 0xA0)]} - {"\n"}
UNSAFE |= set("\u200e\u200f\u2028\u2029\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\ufeff")
INJECTED = b"INJECTED"


@dataclass
class Ran:
    """How one command ended. `status` is negative for a signal, and None if the command had to be stopped."""

    status: int | None
    out: bytes
    err: bytes
    seconds: float
    kib: int


def run(command, wall, cwd=None, env=None, out=None):
    """Runs a command for at most `wall` seconds. Its output is read, or goes to the file `out`."""
    read, write = os.pipe()
    env = {**(os.environ if env is None else env), "HIGHWATER_MUTATIONS_RESULT": str(write)}
    launcher = [sys.executable, "-I", "-S", str(Path(__file__).parent / "limited.py"), *command]
    with tempfile.TemporaryFile() as own, tempfile.TemporaryFile() as err:
        began = time.monotonic()
        child = subprocess.Popen(launcher, stdin=subprocess.DEVNULL, stdout=out or own, stderr=err, env=env, cwd=cwd, pass_fds=[write],
                                 start_new_session=True)
        os.close(write)
        try:
            child.wait(wall)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
        seconds = time.monotonic() - began
        with os.fdopen(read, "rb") as result:
            words = result.read().split()
        status, kib = (int(words[0]), int(words[1])) if words else (None, 0)
        own.seek(0), err.seek(0)
        return Ran(status, own.read(64 << 20), err.read(1 << 20), seconds, kib)


def no_key_twice(pairs):
    keys = [key for key, _ in pairs]
    if len(keys) != len(set(keys)):
        raise ValueError(f"a key twice: {[key for key in keys if keys.count(key) > 1][:2]}")
    return dict(pairs)


def no_constant(name):
    raise ValueError(f"{name} is not JSON")


def strict_json(data):
    return json.loads(data.decode(), object_pairs_hook=no_key_twice, parse_constant=no_constant)


class Plain(pickle.Unpickler):
    """Takes no pickle that calls anything."""

    def find_class(self, module, name):
        raise ValueError(f"the export names {module}.{name}")


def unreadable(out, kind):
    """Reads an output as the next program would, and gives what is wrong with it."""
    if kind in ("text", "markdown") and (unsafe := UNSAFE & set(out.decode())):
        return f"{kind} has {sorted(map(ascii, unsafe))}"
    # A name that `change.HOSTILE` has begins a line of its own: it could pass for one of the program's.
    if kind in ("text", "markdown") and (b"\n" + INJECTED in out or out.startswith(INJECTED)):
        return f"{kind} has a line that a name began"
    if kind == "json" and out.strip():
        strict_json(out)
    if kind == "jsonl":
        for line in out.splitlines():
            strict_json(line)
    if kind == "csv":
        widths = {len(row) for row in csv.reader(io.StringIO(out.decode(), newline=""))}
        if len(widths) > 1:
            return f"csv has rows of {sorted(widths)} cells"
    if kind == "pickle":
        Plain(io.BytesIO(out)).load()
    if kind == "html":
        page = out.split(b"application/x-highwater", 1)[0]
        for mark in (b"alert(", b"onerror=alert", b"javascript:x"):
            if mark in page:
                return f"html has {mark!r} outside of base64"
    return None


def faults(ran, read_bytes, kind, may_be_quiet, idle_kib):
    """Yields what is wrong with a run whose output is of this kind, of a program that holds `idle_kib` when it does nothing."""
    if ran.status is None:
        yield f"a hang: stopped after {ran.seconds:.0f} s"
        return
    if ran.status not in (0, 1, 2):
        yield f"status {ran.status}"
    said = ran.err.decode("utf-8", "replace")
    for word in ("panicked", "RUST_BACKTRACE", "this is an error of highwater", "stack overflow", "memory allocation of"):
        if word in said:
            yield f"standard error says {word!r}: {said.strip().splitlines()[:2]}"
            break
    if ran.status == 2 and not said.strip():
        yield "status 2 without a word"
    if ran.status in (0, 1) and not ran.out.strip() and not may_be_quiet:
        yield f"status {ran.status} without output"
    limit = idle_kib + ROOM_KIB + MULTIPLE * read_bytes // 1024
    if ran.kib > limit:
        yield f"{ran.kib} KiB of memory for {read_bytes} bytes, limit {limit}"
    if unsafe := UNSAFE & set(said):
        yield f"standard error has {sorted(map(ascii, unsafe))}"
    if ran.status in (0, 1):
        try:
            if wrong := unreadable(ran.out, kind):
                yield wrong
        except Exception as error:  # noqa: BLE001 - whatever keeps the next program from reading it
            yield f"{kind} is not readable: {type(error).__name__}: {str(error)[:200]}"


@dataclass
class Check:
    """What is tried, where, and how it went."""

    binary: str
    wall: float
    rng: object
    keep: Path
    work: Path
    end: float
    runs: int = 0
    passed: int = 0
    failed: int = 0
    inputs: dict = field(default_factory=dict)
    accepted: dict = field(default_factory=dict)
    cut_short: bool = False

    def __post_init__(self):
        self.idle_kib = run([self.binary, "--version"], self.wall).kib

    def numbers(self, count):
        """Counts the inputs of a group that is drawn, as long as there is time."""
        for number in range(count):
            if time.monotonic() > self.end:
                self.cut_short = True
                return
            yield number

    def drawn(self, count, inputs):
        """As `numbers`, each with one of the inputs."""
        for number in self.numbers(count):
            yield number, self.rng.choice(inputs)

    def file(self, name, data):
        path = self.work / name
        path.write_bytes(data)
        return path

    def judge(self, group, name, data, commands, read_bytes, env=None):
        """One input and its commands, pairs of the output's kind and the words after the program's name."""
        wrong = []
        for kind, words in commands:
            ran = run([self.binary, *map(str, words)], self.wall, self.work, env)
            self.runs += 1
            self.accepted[group] = self.accepted.get(group, 0) + (ran.status in (0, 1))
            # The folded stacks and the rows of a snapshot without allocations are empty files.
            may_be_quiet = kind in ("folded", "csv", "jsonl") or "--to" in words
            wrong += [(fault, words) for fault in faults(ran, read_bytes, kind, may_be_quiet, self.idle_kib)]
        self.verdict(group, name, data, wrong)

    def verdict(self, group, name, data, wrong):
        """Counts an input, and prints what is wrong: pairs of a fault and the command's words."""
        self.inputs[group] = self.inputs.get(group, 0) + 1
        self.passed += not wrong
        self.failed += bool(wrong)
        if wrong:
            kept = self.keep / f"{group}-{name}"
            kept.write_bytes(data[: 64 << 20])
            for fault, words in wrong[:4]:
                print(f"FAIL {group} {name}: {fault}\n     highwater {' '.join(map(str, words))}   [{kept}]", flush=True)
