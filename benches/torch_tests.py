#!/usr/bin/env python3
"""Runs a file of PyTorch's own tests in a dry run, and compares it with the list of what passes on a GPU and here.

Standard library only. `--python` names an interpreter with torch and what the tests need (testdata/recipes/torch_tests.py). The list is
testdata/torch_tests/NAME.jsonl. A minute for 40 tests, on two cores. The exit status is 1 if a test that passed no longer does.

`--truth` takes what the recipe has written on a GPU, `--write` writes the list: a test that fails for a reason that is not in `WHY` yet
gets `unknown`, to be replaced by hand.
"""

import argparse
import collections
import json
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile

from measured_programs import ROOT

RECIPE = ROOT / "testdata/recipes/torch_tests.py"
LISTS = ROOT / "testdata/torch_tests"
WHY = {
    "values": "need values of tensors",
    "graphs": "need what a replayed CUDA graph computes",
    "kernels": "need an assertion of a kernel",
    "order": "depend on the tests before them",
    "slow": "take longer than the limit",
    "packages": "need a package that is not installed",
    "unknown": "not explained",
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=pathlib.Path, help="such as test_cuda.py")
    parser.add_argument("--python", required=True, type=os.path.abspath, help="the interpreter that has torch")
    parser.add_argument("--highwater", default=ROOT / "target/release/highwater", type=pathlib.Path)
    parser.add_argument("--truth", type=pathlib.Path, help="what the tests did on a GPU")
    parser.add_argument("--found", type=pathlib.Path, help="what they did in a dry run, instead of running them")
    parser.add_argument("--write", action="store_true", help="write the list")
    given = parser.parse_args()
    path = LISTS / f"{given.file.stem}.jsonl"
    known = {row["test"]: row for row in rows(path)} if path.exists() else {}
    truth = {row["test"]: row["result"] for row in rows(given.truth)} if given.truth else {}
    found = rows(given.found) if given.found else run(given)
    new = [judged(row, known.get(row["test"], {}), truth) for row in found]
    lost = [row for row in new if row["dry"] != "passed" and known.get(row["test"], {}).get("dry") == "passed"]
    won = [row for row in new if row["dry"] == "passed" and known.get(row["test"], {}).get("dry", "passed") != "passed"]
    for row in lost:
        print(f"passed and no longer does: {row['test']}: {next(one['why'] for one in found if one['test'] == row['test'])}")
    for row in won:
        print(f"passes now: {row['test']}")
    print(summary(given.file.name, new))
    if not known:
        print(f"{path.relative_to(ROOT)} is not there: nothing to compare with")
    if given.write:
        path.parent.mkdir(exist_ok=True)
        path.write_text("".join(json.dumps(row) + "\n" for row in new))
        print(f"wrote {path.relative_to(ROOT)}")
    return 1 if lost else 0


def run(given):
    gpus = "2" if "multigpu" in given.file.stem else "1"
    through = [given.highwater.resolve(), "dryrun", "--gpu", "h200", "--gpus", gpus, "--timing", "gpu", "--format", "json"]
    through += ["--python", given.python]
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "found.jsonl"
        command = [given.python, RECIPE, out, given.file.resolve(), "--at-once", str(os.cpu_count()), "--through", shlex.join(map(str, through))]
        subprocess.run(command, check=True, cwd=folder, env={**os.environ, "TMPDIR": folder})
        return rows(out)


def rows(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def judged(row, known, truth):
    """A row of the list: what the test does on a GPU and here, and why it does not pass here."""
    gpu = truth.get(row["test"]) or known.get("gpu", "unknown")
    new = {"test": row["test"], "gpu": gpu, "dry": row["result"]}
    if gpu == "passed" != row["result"]:
        new["why"] = known.get("why", "unknown")
    return new


def summary(name, new):
    passing = [row for row in new if row["gpu"] == "passed"]
    others = [row for row in new if row["gpu"] != "passed"]
    reasons = collections.Counter(row["why"] for row in passing if "why" in row)
    said = "".join(f", {count} {WHY[why]}" for why, count in reasons.most_common())
    alike = sum(row["gpu"] == row["dry"] for row in others)
    here = sum(row["dry"] == "passed" for row in passing)
    return f"{name}: of {len(passing)} tests that pass on a GPU {here} pass here{said}; {alike} of the other {len(others)} end as on a GPU"


if __name__ == "__main__":
    sys.exit(main())
