#!/usr/bin/env python3
"""Chooses the inputs of fuzz/corpus: `python3 fuzz/keep.py TARGET …`, or of every target without an argument.

Of the small inputs that a target has found, libFuzzer chooses some that together cover all that these cover. Of those as many are
kept as the size of a corpus allows, small and larger ones alike, for the smallest are refused the earliest.
"""

import hashlib
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import seeds

LARGEST_INPUT = 3_000
# As crates/fuzz-targets/tests/corpus.rs asks for.
LARGEST_CORPUS = 40_000
MOST_INPUTS = 60


def keep(target):
    folder = seeds.FUZZ / "corpus" / target
    with tempfile.TemporaryDirectory() as merged:
        small = Path(merged, "small")
        small.mkdir()
        found_in = [path for path in (seeds.FUZZ / "found" / target, folder) if path.exists()]
        for found in [found for path in found_in for found in path.iterdir()]:
            if found.stat().st_size <= LARGEST_INPUT:
                shutil.copy(found, small)
        chosen = Path(merged, "chosen")
        chosen.mkdir()
        ran = subprocess.run(["cargo", "fuzz", "run", target, "--sanitizer", "none", str(chosen), "--", "-set_cover_merge=1", str(small)],
                             cwd=seeds.FUZZ.parent, check=False, stderr=subprocess.PIPE)
        if ran.returncode:
            sys.exit(f"{ran.stderr.decode(errors='replace')}\nkeep.py: `cargo fuzz run {target}` failed; fuzz/corpus/{target} is as it was")
        if folder.exists():
            shutil.rmtree(folder)
        folder.mkdir(parents=True)
        paths = sorted(chosen.iterdir(), key=lambda path: path.stat().st_size)
        count = MOST_INPUTS
        while sum(path.stat().st_size for path in spread(paths, count)) > LARGEST_CORPUS:
            count -= 1
        for path in spread(paths, count):
            data = path.read_bytes()
            (folder / hashlib.sha256(data).hexdigest()[:12]).write_bytes(data)


def spread(values, count):
    """As many of the values, from the first to the last at equal distances."""
    return [values[index * len(values) // count] for index in range(count)] if len(values) > count else values


if __name__ == "__main__":
    for name in sys.argv[1:] or seeds.TARGETS:
        keep(name)
