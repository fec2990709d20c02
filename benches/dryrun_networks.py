#!/usr/bin/env python3
"""Compares dry runs of networks for images with what a real GPU measured, and writes that part of docs/dryrun-accuracy.md.

Standard library only. `--python` names an interpreter with torch 2.11.0+cu130, torchvision and cuDNN; no GPU is needed. Ten minutes.
"""

import json

from measured_programs import ROOT, arguments, differences, percent, write

RECIPE = ROOT / "testdata/recipes/network_peaks.py"
BEGIN, END = "<!-- networks -->\n", "<!-- end of networks -->"
NEAR = 0.02


def main():
    given = arguments(__doc__)
    lines = (ROOT / "testdata/peaks/networks.jsonl").read_text().splitlines()
    rows = [(real, differences(given, RECIPE, real)) for real in map(json.loads, lines)]
    benchmarks = [row for row in rows if "benchmark" in row[0]["program"]]
    usual = [row for row in rows if row not in benchmarks]
    write(BEGIN, END, [*written(usual), "", "With `torch.backends.cudnn.benchmark = True`:", "", *written(benchmarks)])


def written(rows):
    """A sentence about all, and a line for each, the worst first."""
    requested, reserved = (sorted(abs(shares[column]) for _, shares in rows) for column in (0, 2))
    exact = [sum(share == 0 for share in found) for found in (requested, reserved)]
    yield (
        f"Of {len(rows)} networks the requested peak is exact in {exact[0]} and the reserved peak in {exact[1]}; the reserved peak is "
        f"within 2 % in {near(reserved)}, within "
        f"{reserved[len(rows) * 9 // 10]:.1%} in nine of ten, and off by {reserved[-1]:.1%} at worst."
    )
    yield from ("", "| network | reserved, MiB | requested | allocated | reserved |", "| --- | ---: | ---: | ---: | ---: |")
    for real, shares in sorted(rows, key=lambda row: -abs(row[1][2])):
        yield f"| {real['program']} | {real['reserved'] / 2**20:,.0f} | " + " | ".join(map(percent, shares)) + " |"


def near(shares):
    return sum(share <= NEAR for share in shares)


if __name__ == "__main__":
    main()
