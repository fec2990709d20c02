"""Inputs made by hand to cost much, and environments made to break programs. What they hold is not drawn."""

import gzip
import os

import judge
import seeds

MIB = 1 << 20
# A value, or an opcode that makes no more of them, again and again in a list.
UNITS = {"none": b"N", "int": b"K\x01", "empty-list": b"]", "empty-dict": b"}", "dup": b"2", "memo": b"\x94", "tuple": b"\x85",
         "true": b"\x88", "empty-set": b"\x8f", "float": b"G" + b"\0" * 8, "pop": b"N0", "mark": b"(", "text": b"\x8c\x01a",
         "long": b"\x8a\x01\x05", "frame": b"\x95" + b"\0" * 8, "bytes": b"C\x01a"}


def files():
    """Names, files, and how many bytes there are to read in each."""
    for name, unit in UNITS.items():
        for layer, pack, size in (("bomb", bytes, 8 * MIB), ("gz-bomb", gzip.compress, 64 * MIB)):
            body = b"\x80\x04](" + unit * (size // len(unit)) + b"e."
            yield f"{layer}-{name}", pack(body), len(body)
    nested = gzip.compress(gzip.compress(b"\x80\x04](" + b"N" * (32 * MIB) + b"e."))
    yield "gz-of-zeros", gzip.compress(b"\0" * (128 * MIB)), 128 * MIB
    yield "gz-of-gz", nested, 32 * MIB
    for name, data in {
            "deep-json": b"[" * MIB, "deep-objects": b'{"a":' * (MIB // 4), "html-no-data": b"<html>" + b'"base64' * MIB,
            "json-long-text": b'{"segments": [], "device_traces": [[{"action": "' + b"a" * (16 * MIB) + b'"}]]}',
            "json-long-number": b'{"segments": [{"total_size": ' + b"9" * (4 * MIB) + b"}]}",
            "json-escapes": b'{"segments": [], "x": "' + b"\\ud83d" * MIB + b'"}',
            "json-same-keys": b'{"segments": [], ' + b'"a": 1, ' * MIB + b'"device_traces": [[]]}',
            "html-without-end": b'<html>"base64": "' + b"A" * (16 * MIB)}.items():
        yield name, data, len(data)


def logs():
    sentence = b"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.00 GiB. "
    return {"one-line": sentence * 60_000, "lines": (sentence + b"\n") * 60_000,
            "openers": b"CUDA out of memory. Tried to allocate " * 200_000, "brackets": b"[[[[((((" * MIB, "nul": b"\0" * (16 * MIB),
            "utf16": ("CUDA out of memory. Tried to allocate 2.00 GiB. " * 50_000).encode("utf-16"),
            "digits": b"Tried to allocate " + b"9" * (4 * MIB) + b" GiB", "escapes": b"\x1b[" * (4 * MIB),
            "json": b'{"log": "' + b'{\\"log\\": \\"' * 200_000 + b'"}'}


def attacks(check, _count):
    for name, data, read_bytes in files():
        path = check.file("attack", data)
        check.judge("attacks", name, data, [("text", ["report", path]), ("json", ["report", path, "--format", "json"])], read_bytes)
    for name, data in logs().items():
        path = check.file("attack", data)
        check.judge("attacks", f"log-{name}", data, [("text", ["explain", path]), ("json", ["explain", path, "--format", "json"])], len(data))


ENVIRONMENTS = {"empty": {}, "c": {"LC_ALL": "C"}, "no-term": {"TERM": ""}, "narrow": {"TERM": "dumb", "COLUMNS": "1"},
                "wide": {"COLUMNS": "100000000", "LINES": "100000000"},
                "odd": {"COLUMNS": "-5", "HOME": "/nonexistent", "TMPDIR": "/nonexistent"}}


def environments(check, _count):
    """Without an environment, in odd ones, with names that are no text, and with what is no file."""
    plain = max((data for name, data in seeds.snapshot() if name.endswith(".pickle")), key=len)
    path = check.file("d.pickle", plain)
    for name, env in ENVIRONMENTS.items():
        for words in (["report", path], ["live", path], ["segments", path], ["doctor"], ["estimate", "gpt2"]):
            check.judge("environments", f"{name}-{words[0]}", plain, [("text", words)], len(plain) + 8 * MIB, env=env)
    odd = os.fsdecode(os.path.join(os.fsencode(check.work), b"\xff\xfe\x1b[31m.pickle"))
    os.link(path, odd)
    for kind, words in [("text", ["report", odd]), ("json", ["report", odd, "--format", "json"]),
                        ("markdown", ["report", odd, "--format", "markdown"]), ("text", ["diff", odd, path]),
                        ("text", ["check", odd, "--max-peak-reserved", "1GiB", "--format", "github"]), ("html", ["export", odd, "--to", "html"])]:
        check.judge("environments", f"no-text-{words[0]}", plain, [(kind, words)], 2 * len(plain))
    for special in ("/dev/null", "/dev/zero", "/", "/nonexistent", "/dev/full", "/proc/self/mem", "/proc/self/cmdline"):
        check.judge("environments", special.replace("/", "_"), b"", [("text", ["report", special])], MIB)


OUTPUTS = [["report"], ["report", "--format", "json"], ["export", "--to", "json"], ["export", "--to", "html"], ["export", "--to", "csv"],
           ["export", "--to", "pickle"], ["trace"], ["live", "--format", "json"], ["simulate", "--format", "json"]]


def outputs(check, _count):
    """A reader that goes away is no error; a full disk is one, and is said."""
    plain = max((data for name, data in seeds.snapshot() if name.endswith(".pickle")), key=len)
    path = check.file("d.pickle", plain)
    commands = [[words[0], str(path), *words[1:]] for words in OUTPUTS] + [["man"], ["completions", "bash"], ["estimate", "--list"]]
    for words in commands:
        read, closed = os.pipe()
        os.close(read)
        with os.fdopen(closed, "wb") as gone, open("/dev/full", "wb") as full:
            for name, out, statuses in (("closed", gone, (0, 1, 2)), ("full", full, (2,))):
                ran = judge.run([check.binary, *words], check.wall, check.work, out=out)
                wrong = list(judge.faults(ran, len(plain) + 8 * MIB, "other", True, check.idle_kib))
                if ran.status not in statuses:
                    wrong.append(f"status {ran.status} with a {name} output")
                check.verdict("outputs", f"{name}-{'-'.join([words[0], *words[2:]])}", plain, [(fault, words) for fault in wrong])
