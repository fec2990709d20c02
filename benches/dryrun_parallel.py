#!/usr/bin/env python3
"""Compares dry runs of several ranks with what the same program took on as many GPUs, rank by rank.

Standard library only. `--data` is a directory with `NAME.rankR.json` for each set-up and rank: `requested`, `allocated` and `reserved`,
each with its `peak` in bytes. `--program` is the script that was measured, called as `PROGRAM OUT NAME`. `--python` names an
interpreter with torch and what the program imports. A set-up takes half a minute; no GPU is needed.

A set-up is right if each rank is within 0.05 % requested, 0.1 % allocated and 1 % reserved, or if the answer says that timing decides and
the measured value lies in its range. The exit status is 1 if one is not.
"""

import argparse
import json
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
BOUNDS = {"requested": 0.0005, "allocated": 0.001, "reserved": 0.01}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", required=True, help="the interpreter that has torch")
    parser.add_argument("--highwater", default=ROOT / "target/release/highwater", type=pathlib.Path)
    parser.add_argument("--data", required=True, type=pathlib.Path, help="the directory of measurements")
    parser.add_argument("--program", required=True, type=pathlib.Path, help="the script that was measured")
    parser.add_argument("--gpu", default="h200", help="the GPU that measured")
    parser.add_argument("names", nargs="*", help="set-ups [default: all that were measured]")
    given = parser.parse_args()
    measured = {}
    for path in sorted(given.data.glob("*.rank*.json")):
        name, rank = re.fullmatch(r"(.+)\.rank(\d+)\.json", path.name).groups()
        if not given.names or name in given.names:
            measured.setdefault(name, {})[int(rank)] = json.loads(path.read_text())
    print("| set-up | rank | requested | allocated | reserved | |\n| --- | ---: | ---: | ---: | ---: | --- |")
    wrong = sum(not compare(given, name, ranks) for name, ranks in measured.items())
    print(f"\n{len(measured) - wrong} of {len(measured)} set-ups are within the bounds")
    return 1 if wrong or not measured else 0


def compare(given, name, ranks):
    peaks, *others = dry_run(given, name, len(ranks))
    all_right = True
    for rank, measured in sorted(ranks.items()):
        difference = relative(peaks.get(rank), measured)
        said = "" if within(difference) else outside(measured, peaks.get(rank), *(other[rank] for other in others if rank in other))
        all_right &= said != "WRONG"
        row = " | ".join(f"{difference[measure]:+.3%}" if difference else "no run" for measure in BOUNDS)
        print(f"| {name} | {rank} | {row} | {said} |", flush=True)
    return all_right


def dry_run(given, name, ranks):
    """The peaks of each rank, and those of the runs in which streams finish late, if there were any."""
    with tempfile.TemporaryDirectory() as folder:
        command = [given.highwater, "dryrun", "--gpu", given.gpu, "--ranks", str(ranks)]
        command += ["--format", "json", "--python", given.python, given.program, folder, name]
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
    if ran.returncode != 0:
        print(f"{name}: {ran.stderr[-2000:]}", file=sys.stderr)
        return [{}]
    answer = json.loads(ran.stdout)
    return [of_ranks(answer.get(key, [])) for key in ("processes", "late", "late_after_first_step")]


def of_ranks(processes):
    # Of the others' GPUs a rank has looked at it holds nothing.
    return {one["rank"]: max(one["devices"], key=lambda device: device["peak_reserved_bytes"]) for one in processes}


def relative(peaks, measured):
    if peaks is None:
        return {}
    return {measure: peaks[f"peak_{measure}_bytes"] / measured[measure]["peak"] - 1 for measure in BOUNDS}


def within(difference):
    return bool(difference) and all(abs(difference[measure]) <= bound for measure, bound in BOUNDS.items())


def outside(measured, *runs):
    """Whether the measured peaks lie where timing decides."""
    if None in runs:
        return "WRONG"
    for measure, bound in BOUNDS.items():
        values = [run[f"peak_{measure}_bytes"] for run in runs]
        if not min(values) * (1 - bound) <= measured[measure]["peak"] <= max(values) * (1 + bound):
            return "WRONG"
    return "depends on timing"


if __name__ == "__main__":
    sys.exit(main())
