#!/usr/bin/env python3
"""Compares dry runs with what a real GPU measured, and writes docs/dryrun-accuracy.md.

Standard library only. `--python` names an interpreter with torch 2.11.0+cu130 and transformers 5.17.0, which the measurements in
testdata/peaks were made with; no GPU is needed. Takes four minutes.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
GROUPS = {
    "published": "GPT-2, Qwen2.5-0.5B, Llama-3.2-1B, BERT and ViT of published sizes",
    "decoders": "twelve other families that predict the next word",
    "others": "encoders, encoder-decoders, speech and images",
}
PROCESSES = {"published": ["published0", "published1", "published2"]}
MEASURES = ("requested", "allocated", "reserved")
REASONS = {
    "base": "the earlier library workspaces count in another row: the GPU's process had run other set-ups first",
    "allocated": "the choice of a free block depends on the memory layout that earlier set-ups left behind",
    "reserved": "reserved memory depends on the address space that earlier set-ups of the process left behind",
    "images": "the same, and which scratch memory cuDNN chooses for the convolution that cuts the image into patches",
}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", required=True, help="the interpreter that has torch and transformers")
    parser.add_argument("--highwater", default=ROOT / "target/release/highwater", type=pathlib.Path)
    given = parser.parse_args()
    sections = []
    for group, about in GROUPS.items():
        real = read(ROOT / f"testdata/peaks/{group}.jsonl")
        dry = {}
        for process in PROCESSES.get(group, [group]):
            dry.update((key(row), row) for row in dry_run(given, process))
        sections.append((about, [(row, dry[key(row)]) for row in real]))
    page = ROOT / "docs/dryrun-accuracy.md"
    before, _, rest = page.read_text().partition("<!-- measured -->\n")
    after = rest.partition("<!-- end -->")[2]
    page.write_text(f"{before}<!-- measured -->\n{written(sections)}<!-- end -->{after}")
    print(f"wrote {page.relative_to(ROOT)}")


def read(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def dry_run(given, group):
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "peaks.jsonl"
        recipe = ROOT / "testdata/recipes/peaks.py"
        command = [given.highwater, "dryrun", "--gpu", "h200", "--python", given.python, recipe, out, group]
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
        if ran.returncode != 0:
            sys.exit(ran.stderr)
        return read(out)


def key(row):
    """The set-up, without what was measured."""
    return json.dumps({name: value for name, value in row.items() if name not in ("base", *MEASURES)}, sort_keys=True)


def errors(pairs, measure):
    """By how much each differs, as a share of what was measured."""
    return [abs(dry[measure] - real[measure]) / real[measure] for real, dry in pairs]


def written(sections):
    lines = []
    for about, pairs in sections:
        lines += [f"\n### {about[0].upper()}{about[1:]}: {len(pairs)} set-ups\n"]
        lines += ["| peak | exact | median | nine of ten within | worst |", "| --- | ---: | ---: | ---: | ---: |"]
        for measure in MEASURES:
            found = sorted(errors(pairs, measure))
            exact = sum(error == 0 for error in found)
            ninth = found[min(len(found) - 1, len(found) * 9 // 10)]
            shares = (found[len(found) // 2], ninth, found[-1])
            lines.append(f"| {measure} | {exact} of {len(found)} | " + " | ".join(map(percent, shares)) + " |")
    lines += ["\n### Rows that are not exact\n", "| set-up | requested | allocated | reserved | why |", "| --- | ---: | ---: | ---: | --- |"]
    for _, pairs in sections:
        for real, dry in pairs:
            off = [(dry[measure] - real[measure]) / real[measure] for measure in MEASURES]
            if any(off):
                lines.append(f"| {named(real)} | " + " | ".join(map(percent, off)) + f" | {why(real, dry, off)} |")
    return "\n".join(lines) + "\n\n"


def percent(share):
    return "0" if share == 0 else f"{share:+.3%}" if share < 0 else f"{share:.3%}"


def named(row):
    options = [str(value) if name in ("dtype", "opt", "attn", "mode") else f"{name} {value}" for name, value in row.items()
               if name not in ("kind", "b", "s", "base", *MEASURES)]  # fmt: skip
    return f"{row['kind']} {row['b']} × {row['s']}, {', '.join(options)}"


def why(real, dry, off):
    if off[0]:
        return REASONS["base"] if real["base"] != dry["base"] else "not known"
    if off[2] and row_has_images(real):
        return REASONS["images"]
    return REASONS["reserved" if off[2] else "allocated"]


def row_has_images(row):
    return row["kind"].startswith(("vit", "swin"))


if __name__ == "__main__":
    main()
