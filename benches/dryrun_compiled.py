#!/usr/bin/env python3
"""Compares dry runs of compiled programs with what a real GPU measured, and writes that part of docs/dryrun-accuracy.md.

Standard library only. `--python` names an interpreter with torch 2.11.0+cu130, Triton, transformers 5.17.0 and torchvision; no GPU is
needed. Everything is compiled: ten minutes.
"""

import json

from measured_programs import ROOT, arguments, differences, percent, write

RECIPE = ROOT / "testdata/recipes/compiled_programs.py"
BEGIN, END = "<!-- compiled -->\n", "<!-- end of compiled -->"


def main():
    given = arguments(__doc__)
    lines = ["| program | requested | allocated | reserved |", "| --- | ---: | ---: | ---: |"]
    for line in (ROOT / "testdata/peaks/compiled.jsonl").read_text().splitlines():
        real = json.loads(line)
        shares = differences(given, RECIPE, real)
        lines.append(f"| {real['program']} | " + " | ".join(map(percent, shares)) + " |")
    write(BEGIN, END, lines)


if __name__ == "__main__":
    main()
