"""Snapshots and profiles: changed bytes, opcodes, values and names, and changed wrappers around them, through every command."""

import base64
import gzip
import json
import pickle

import change
import seeds

# What Python's own pickler or JSON writer does not take is not tried.
UNWRITABLE = (RecursionError, pickle.PicklingError, TypeError, ValueError, OverflowError)


def commands(path, other, rng):
    """Every command that reads a snapshot, with the kind of its output."""
    return [
        ("text", ["report", path]),
        ("json", ["report", path, "--format", "json"]),
        ("markdown", ["report", path, "--format", "markdown"]),
        ("text", ["report", path, "--redact", "--top", rng.choice([0, 1, 3, 1_000_000])]),
        ("text", ["live", path, "--at", rng.choice(["peak", "end", "0", "5", "99999999999"])]),
        ("json", ["live", path, "--blocks", "--format", "json"]),
        ("text", ["live", path, "--blocks"]),
        ("text", ["trace", path, "--stacks"]),
        ("json", ["trace", path, "--format", "json"]),
        ("text", ["segments", path, "--blocks"]),
        ("json", ["segments", path, "--format", "json"]),
        ("text", ["stats", path]),
        ("json", ["stats", path, "--format", "json"]),
        ("text", ["simulate", path, "--conf", "expandable_segments:True"]),
        ("json", ["simulate", path, "--format", "json"]),
        ("text", ["simulate", path, "--verify"]),
        ("json", ["simulate", path, "--capacity", "4GiB", "--format", "json"]),
        ("text", ["explain", path]),
        ("json", ["explain", path, "--format", "json"]),
        ("text", ["explain", path, "--capacity", "2GiB"]),
        ("text", ["diff", path, other]),
        ("json", ["diff", other, path, "--format", "json"]),
        ("text", ["diff", path, path, "--events"]),
        ("text", ["check", path, "--max-peak-reserved", "1GiB", "--max-fragmentation", "10%"]),
        ("json", ["check", path, "--baseline", other, "--format", "json"]),
        ("text", ["check", path, "--max-peak-allocated", "1MiB", "--format", "github"]),
        ("json", ["export", path, "--to", "json"]),
        ("csv", ["export", path, "--to", "csv"]),
        ("pickle", ["export", path, "--to", "pickle"]),
        ("json", ["export", path, "--to", "chrome-trace"]),
        ("json", ["export", path, "--to", "speedscope", "--at", rng.choice(["peak", "end"])]),
        ("folded", ["export", path, "--to", "folded"]),
        ("html", ["export", path, "--to", "html"]),
        ("json", ["sql", path, "select * from lifetimes natural join devices", "--format", "json"]),
        ("text", ["sql", path, rng.choice(["select * from frames", "select * from findings", "select * from entries"])]),
    ]


def pickles(largest):
    return [(name, data) for name, data in seeds.snapshot() if name.endswith(".pickle") and len(data) < largest]


def snapshots(check, count):
    rng, inputs = check.rng, pickles(seeds.LARGEST)
    for number, (name, plain) in check.drawn(count, inputs):
        how = rng.randrange(6)
        try:
            if how < 3:
                data = [change.flip, change.splice, change.opcodes][how](plain, rng)
            else:
                data = change.as_pickle(change.structure(pickle.loads(plain), rng), rng)
            data = change.flip(data, rng) if how == 5 else data
        except UNWRITABLE:
            continue
        stored = gzip.compress(data, 1) if rng.random() < 0.2 else data
        path, other = check.file("in.pickle", stored), check.file("other.pickle", plain)
        chosen = rng.sample(commands(path, other, rng), 3)
        check.judge("snapshots", f"{number}-{name}", stored, chosen, len(data) + len(plain))


def wrapped(plain, pages, rng):
    how = rng.randrange(6)
    packed = gzip.compress(plain)
    if how < 2:
        return [change.flip, change.splice][how](packed, rng)
    if how == 2:
        return packed[: rng.randrange(1, len(plain))] + packed
    if how == 3:
        page = b'<html><script>x=[{"name":"a","base64":"' + base64.b64encode(plain) + b'"}]</script></html>'
        return change.flip(page, rng) if rng.random() < 0.8 else page
    if how == 4:
        return change.text(rng.choice(pages), rng)
    return change.as_json(change.structure(pickle.loads(plain), rng))


def wrappers(check, count):
    rng, inputs = check.rng, pickles(120_000)
    pages = [data for name, data in seeds.snapshot() if name.endswith((".html", ".json"))]
    for number, (name, plain) in check.drawn(count, inputs):
        try:
            data = wrapped(plain, pages, rng)
        except UNWRITABLE:
            continue
        path, other = check.file("in.bin", data), check.file("other.pickle", plain)
        check.judge("wrappers", f"{number}-{name}", data, rng.sample(commands(path, other, rng), 2), 3 * len(data) + 2 * len(plain))


def names(check, count):
    rng, inputs = check.rng, pickles(seeds.LARGEST)
    for number, (name, plain) in check.drawn(count, inputs):
        try:
            root = change.names(pickle.loads(plain), rng)
            data = change.as_pickle(root, rng) if rng.random() < 0.7 else change.as_json(root)
        except UNWRITABLE:
            continue
        hostile = ["in.pickle", "in \x1b[31m.pickle", "in\nnext.pickle", "<b>in.pickle", "-in.pickle"]
        path, other = check.file(rng.choice(hostile), data), check.file("other.pickle", plain)
        chosen = rng.sample(commands(path, other, rng), 5)
        check.judge("names", f"{number}-{name}", data, chosen, 2 * len(data) + len(plain) + (4 << 20))


def profiler(check, count):
    rng, inputs = check.rng, list(seeds.profiler())
    for number, (name, plain) in check.drawn(count, inputs):
        data = change.as_json(change.structure(json.loads(plain), rng)) if rng.random() < 0.5 else change.text(plain, rng)
        path = check.file("in.json", data)
        check.judge("profiler", f"{number}-{name}", data, rng.sample(commands(path, path, rng), 2), len(data))
