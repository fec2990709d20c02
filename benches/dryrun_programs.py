#!/usr/bin/env python3
"""Compares dry runs of whole programs with what a real GPU measured, and writes that part of docs/dryrun-accuracy.md.

Standard library only. `--programs` is a directory with `NAME.py` for each program, and `--truth` a file with a line of JSON for each:
`name`, `how` (`steps` if it was ended after `steps` of them) and `stats`, for each device PyTorch's own `memory_stats()` at its end.
`--python` names an interpreter with torch and what the programs import. A program takes up to two minutes; no GPU is needed. Answers are
kept in `--answers`: a program whose answer is there is not run again.

A program is right if it is within 0.05 % requested, 0.1 % allocated and 1 % reserved, or if each measured peak lies between the peaks that
the answer has: of streams that finish late, of few elements of masks, and of segments at other addresses.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

from measured_programs import MEASURES, ROOT, percent, write

BEGIN, END = "<!-- programs -->\n", "<!-- end of programs -->"
BOUNDS = {"requested": 0.0005, "allocated": 0.001, "reserved": 0.01}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", required=True, help="the interpreter that has torch")
    parser.add_argument("--highwater", default=ROOT / "target/release/highwater", type=pathlib.Path)
    parser.add_argument("--programs", required=True, type=pathlib.Path)
    parser.add_argument("--truth", required=True, type=pathlib.Path)
    parser.add_argument("--answers", required=True, type=pathlib.Path, help="the directory in which answers are kept")
    parser.add_argument("--gpu", default="h200", help="the GPU that measured")
    parser.add_argument("--write", action="store_true", help="write the page, too")
    parser.add_argument("names", nargs="*", help="programs [default: all that were measured]")
    given = parser.parse_args()
    given.answers.mkdir(parents=True, exist_ok=True)
    measured = [json.loads(line) for line in given.truth.read_text().splitlines()]
    rows = [row(given, real) for real in measured if not given.names or real["name"] in given.names]
    right = sum(words != "no" for *_, words in rows)
    summary = f"{right} of {len(rows)} programs are within the bounds, or in the answer's range."
    print(summary)
    if given.write:
        lines = [summary, "", "| program | requested | allocated | reserved | right |", "| --- | ---: | ---: | ---: | --- |"]
        write(BEGIN, END, lines + ["| " + " | ".join(cells) + " |" for cells in rows])
    return 0 if right == len(rows) else 1


def row(given, real):
    answer = dry_run(given, real)
    cells, rights = [], []
    # Of the device that reserved most there.
    stats = max(real["stats"].values(), key=lambda stats: stats["reserved_bytes.all.peak"])
    for measure in MEASURES:
        peaks = [found / stats[f"{measure}_bytes.all.peak"] - 1 for found in all_peaks(answer, measure)]
        exact, low, high = abs(peaks[0]), min(peaks), max(peaks)
        bound = BOUNDS[measure]
        rights.append("yes" if exact <= bound else "in the range" if low - bound <= 0 <= high + bound else "no")
        cells.append(percent(peaks[0]) if rights[-1] == "yes" or percent(low) == percent(high) else f"{percent(low)} to {percent(high)}")
    words = max(rights, key=["yes", "in the range", "no"].index)
    print(real["name"], *cells, words, sep=" | ", flush=True)
    return real["name"], *cells, words


def dry_run(given, real):
    path = given.answers / f"{real['name']}.json"
    if not path.exists():
        steps = ["--steps", str(real["steps"])] if real["how"] == "steps" else []
        with tempfile.TemporaryDirectory() as folder:
            command = [given.highwater.resolve(), "dryrun", "--gpu", given.gpu, "--timeout", "10m", "--format", "json", *steps]
            command += ["--python", given.python, given.programs.resolve() / f"{real['name']}.py"]
            ran = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder, env={**os.environ, "TMPDIR": folder})
        if ran.returncode != 0:
            sys.exit(f"{real['name']}: {ran.stderr[-2000:]}")
        path.write_text(ran.stdout)
    return json.loads(path.read_text())


def all_peaks(answer, measure):
    """The peak of the answer, then the others that it allows for."""
    main = answer["processes"][0]
    most = max(main["devices"], key=lambda device: device["peak_reserved_bytes"])
    peaks = [most[f"peak_{measure}_bytes"]]
    others = [other for key in ("late", "late_after_first_step", "few") for other in (answer.get(key) or [])[:1]]
    for other in others:
        peaks += [device[f"peak_{measure}_bytes"] for device in other["devices"] if device["device"] == most["device"]]
    return peaks + list((answer.get("addresses") or {}).get(f"{measure}_bytes", []))


if __name__ == "__main__":
    sys.exit(main())
