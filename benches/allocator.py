#!/usr/bin/env python3
"""Measures the rebuilt allocator against PyTorch's own and writes its part of docs/benchmarks.md.

The program is a million requests of training with inputs of all lengths, from testdata/recipes/request_programs.py.
PyTorch's allocators are the oracles in HIGHWATER_ORACLE or target/oracle (`make oracle`); without any, only ours is
timed. Each round runs the two in turn, a process each, so that a change of the machine's speed hits both alike; ratios
are taken within a round. Both must have come to the same statistics.
"""

import argparse
import os
import pathlib
import re
import statistics
import sys

from run import ROOT, commit, cpu_model, run, table, write_page

sys.path.append(str(ROOT / "testdata/recipes"))
from request_programs import train  # noqa: E402

CAPACITY_MIB = "143000"
CONFS = {"default": "", "expandable": "expandable_segments:True"}
NEWEST = "2.15"


def program_file(cache, requests):
    """The program, made if it is not there."""
    path = cache / f"train_{requests}.csv"
    if not path.exists():
        print(f"making {path.name} ...", flush=True)
        part = path.with_suffix(".part")
        part.write_text(train(seed=1, ops=requests, variable=True, layers=12).text())
        part.rename(path)
    return path


def oracles(folder):
    """The oracles of a folder by version, such as 2.11, the oldest first."""
    found = {}
    for path in folder.glob("*/oracle"):
        if name := re.match(r"(\d+)\.(\d+)", path.parent.name):
            found[int(name[1]), int(name[2])] = path
    return {f"{major}.{minor}": found[major, minor] for major, minor in sorted(found)}


def timed(command):
    """The ns of an op that a program says, and whatever else."""
    out, _, _ = run(command)
    line = dict(word.split("=") for word in out.decode().split())
    return float(line.pop("ns_per_op")), line


def measure(binary, oracle, torch, conf, program, runs):
    """The ns of an op in each round: ours, and PyTorch's if there is an oracle."""
    common = ["--program", program, "--capacity-mib", CAPACITY_MIB, *(["--conf", conf] if conf else [])]
    ours, theirs = [], []
    for number in range(runs):
        print(f"torch {torch}, {conf or 'default'}: round {number + 1} of {runs}", flush=True)
        ns, outcome = timed([binary, "--torch", torch, *common])
        ours.append(ns)
        if oracle:
            ns, expected = timed([oracle, "--bench", *common])
            theirs.append(ns)
            if outcome != expected:
                raise SystemExit(f"not the same: {outcome}, PyTorch {expected}")
    return ours, theirs


def both(values):
    return f"{min(values):.0f} / {statistics.median(values):.0f} ns"


def row(torch, conf, ours, theirs):
    ratio = f"{statistics.median(b / a for a, b in zip(ours, theirs)):.1f}" if theirs else "not measured"
    speed = f"{1e3 / min(ours):.1f} / {1e3 / statistics.median(ours):.1f} M/s"
    return [f"{torch}, {conf}", ratio, both(ours), speed, both(theirs) if theirs else "not measured"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", type=pathlib.Path, default=ROOT / "target/release/examples/speed")
    parser.add_argument("--cache", type=pathlib.Path, default=ROOT / "target/bench", help="where the program lies")
    parser.add_argument("--page", type=pathlib.Path, default=ROOT / "docs/benchmarks.md")
    parser.add_argument("--requests", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=9)
    args = parser.parse_args()
    args.cache.mkdir(parents=True, exist_ok=True)
    load = os.getloadavg()[0]
    program = program_file(args.cache, args.requests)
    found = oracles(pathlib.Path(os.environ.get("HIGHWATER_ORACLE", ROOT / "target/oracle")))
    rows = [
        row(torch, name, *measure(args.binary, oracle, torch, conf, program, args.runs))
        for torch, oracle in (found or {NEWEST: None}).items()
        for name, conf in CONFS.items()
    ]
    about = (
        f"{os.cpu_count()}-core {cpu_model()}; load average before: {load:.1f}. Commit {commit()}. {args.runs} rounds: "
        "min / median; the ratio is the median of the ratios within the rounds."
    )
    head = ["torch, settings", "times as fast as PyTorch", "an op", "ops", "PyTorch: an op"]
    write_page(args.page, "benches/allocator.py", "\n\n".join([about, table(head, rows)]))


if __name__ == "__main__":
    main()
