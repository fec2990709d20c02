#!/usr/bin/env python3
"""Runs the same programs, dry, over releases of PyTorch, one after the other, and compares each with torch 2.11, which a GPU has measured.

Standard library only. Installs a release with pip, without NVIDIA's libraries, into `--folder` (2 GB), runs
testdata/recipes/release_programs.py, and deletes it again, in five minutes; a release whose wheel cannot be had is skipped with a sentence.
`--python` names an interpreter for which each has a wheel. Answers are kept in `--answers`: what is there is not run again. `--write` puts all
of them into docs/dryrun-accuracy.md.

A release is right if each program runs, if its own recording replays under its rules entry by entry, and if the peaks are those of torch
2.11. If they are not, the recording of 2.11 replayed under the release's rules must have them, or `REASONS` say why they differ. The exit
status is 1 if a release is not right.
"""

import argparse
import collections
import gzip
import json
import os
import pathlib
import pickle
import re
import shutil
import subprocess
import sys
import tempfile

from measured_programs import MEASURES, ROOT, write

BEGIN, END = "<!-- releases -->\n", "<!-- end of releases -->"
RECIPE = ROOT / "testdata/recipes/release_programs.py"
GOLDENS = ROOT / "testdata/allocator/index.json.gz"
BASELINE = "2.11"
RANKS = ("--imagine-ranks", "4")
PROGRAMS = dict.fromkeys(
    (
        "adamw adamw_fused sgd checkpointed scaled convolutions lstm generation attention graph compiled expandable split rounded "
        "streams pool"
    ).split(),
    (),
) | {"two_devices": ("--gpus", "2"), "ddp": RANKS, "fsdp": RANKS, "fsdp2": RANKS}
LACKS = 3
"""The status of a program that needs what a release has not."""
REASONS = (
    (4, 8, {"": {1 << 20}}, "a workspace of cuBLASLt for each product, not one that is kept"),
    (12, 14, {"": {1 << 20}}, "no workspace of cuBLASLt beside cuBLAS's"),
    (
        4, 10, {"generation": {8, 16, 128, 256, 16384}, "scaled": {8, 16, 256, 64 << 10, 2 << 20, 4 << 20, 4_260_096}},
        "flash attention, not cuDNN's",
    ),
    (4, 6, {"scaled": {4}}, "other norms of gradients"),
    (15, 15, {"scaled": {392, 896, 3072}}, "other norms of gradients"),
    (14, 15, {"graph": {8}}, "no seed for a captured graph"),
    (4, 15, {"compiled": {2, 4, 8 << 10}}, "other compiled code"),
    (12, 15, {"scaled": {8, 16, 256, 64 << 10, 2 << 20, 4 << 20, 4_260_096}}, "flash attention with dropout, not cuDNN's"),
    (15, 15, {"": {1 << 20, 32 << 20}}, "a workspace of cuBLAS for each product, not one that is kept"),
    (15, 15, {"ddp": {32}}, "parameters compared by a gathering of broadcasts"),
    (15, 15, {"lstm": {56_831, 69_119}}, "another sort in the embedding's backward pass"),
    (4, 4, {"attention": {4, 8, 16, 32 << 10, 4 << 20, 8 << 20, 16 << 20, 32 << 20}}, "attention by `math` in 16 bits, not 32"),
    (5, 5, {"attention": {4, 8, 16, 32 << 20}}, "a softmax of `math` that is not in place"),
)  # fmt: skip
"""Which requests differ from those of torch 2.11, and why: first and last minor release, sizes in bytes by program or of all, the reason.

# Source
Workspaces: `gemm_and_bias` in `aten/src/ATen/cuda/CUDABlas.cpp` of 2.6, and what `TORCH_CUBLASLT_UNIFIED_WORKSPACE` is by default.
Attention: `torch._fused_sdp_choice` under each release; `_safe_softmax` in `aten/src/ATen/native/transformers/attention.cpp` of 2.6.
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", required=True, type=os.path.abspath, help="the interpreter, without torch")
    parser.add_argument("--highwater", default=ROOT / "target/release/highwater", type=pathlib.Path)
    parser.add_argument("--baseline", required=True, type=pathlib.Path, help=f"where torch {BASELINE} is installed")
    parser.add_argument("--folder", default=ROOT / "target/releases", type=pathlib.Path, help="where releases are installed")
    parser.add_argument("--answers", default=ROOT / "target/releases/answers", type=pathlib.Path, help="where answers are kept")
    parser.add_argument("--write", action="store_true", help="write the page, too")
    parser.add_argument("releases", nargs="+", help="such as 2.15.0")
    given = parser.parse_args()
    measured = answers(given, f"{BASELINE}.0", given.baseline)
    rows = []
    for release in given.releases:
        if found := answers(given, release):
            rows.append(compare(given, release, found, measured))
    if given.write:
        written(rows)
    return 0 if all(row["wrong"] == 0 for row in rows) else 1


def answers(given, release, installed=None):
    """What the programs took under a release, by name; nothing if it cannot be had."""
    kept = given.answers / release
    kept.mkdir(parents=True, exist_ok=True)
    if missing := [name for name in PROGRAMS if not (kept / f"{name}.json").exists()]:
        folder = installed or install(given, release)
        if folder is None:
            return {}
        found = {name: dry_run(given, release, folder, name) for name in missing}
        if not installed:
            shutil.rmtree(folder)
        for name, answer in found.items():
            if answer["how"] != "failed":
                (kept / f"{name}.json").write_text(json.dumps(answer))
    else:
        found = {}
    return {name: found.get(name) or json.loads((kept / f"{name}.json").read_text()) for name in PROGRAMS}


def install(given, release):
    folder = given.folder.resolve() / f"torch-{release}"
    shutil.rmtree(folder, ignore_errors=True)
    pip = [given.python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile", "--no-cache-dir"]
    pip += ["--no-deps", "--target", folder]
    if subprocess.run([*pip, f"torch=={release}"], check=False).returncode != 0:
        print(f"skipped: torch {release}: its wheel could not be had")
        return None
    (metadata,) = folder.glob("torch-*.dist-info/METADATA")
    needed = re.findall(r"^Requires-Dist: (.+)$", metadata.read_text(), re.MULTILINE)
    wanted = [line for line in needed if "extra ==" not in line and not line.startswith(("nvidia-", "cuda-"))]
    # Which these need in turn.
    subprocess.run([*pip, "--upgrade", *wanted, "markupsafe", "mpmath<1.4"], check=True)
    return folder


def dry_run(given, release, folder, name):
    """One program: what became of it, its peaks by device, and its requests."""
    recording = given.answers.resolve() / release / f"{name}.pickle"
    with tempfile.TemporaryDirectory() as scratch:
        command = [given.highwater.resolve(), "dryrun", "--gpu", "h200", "--timeout", "10m", "--format", "json", "-o", recording, "--force"]
        command += [*PROGRAMS[name], "--timing", "at-once", "--python", given.python, RECIPE, name]
        environment = {**os.environ, "PYTHONPATH": str(folder.resolve()), "TMPDIR": scratch, "TORCHINDUCTOR_CACHE_DIR": scratch}
        ran = subprocess.run(command, capture_output=True, text=True, check=False, cwd=scratch, env=environment)
    if ran.returncode != 0:
        return {"how": "lacks" if f"(exit status: {LACKS})" in ran.stderr else "failed", "error": ran.stderr[-3000:]}
    (process,) = (one for one in json.loads(ran.stdout)["processes"] if one["devices"])
    command = [given.highwater, "simulate", recording, "--verify", "--torch", release.rpartition(".")[0], "--format", "json"]
    verified = subprocess.run(command, capture_output=True, text=True, check=False)
    peaks = {str(device["device"]): {measure: device[f"peak_{measure}_bytes"] for measure in MEASURES} for device in process["devices"]}
    fidelity = json.loads(verified.stdout)["fidelity"] if verified.returncode in (0, 1) else {"error": verified.stderr[-500:]}
    return {"how": "ran", "torch": process["torch"], "peaks": peaks, "fidelity": fidelity, "requests": requests(recording)}


def requests(recording):
    """Each allocation of a recording, which is ours: its device, its bytes, and the functions that asked for it."""
    with open(recording, "rb") as file:
        traces = pickle.load(file)["device_traces"]
    return [
        [device, entry["size"], " < ".join(frame["name"] for frame in entry["frames"][:4])]
        for device, trace in enumerate(traces)
        for entry in trace
        if entry["action"] == "alloc"
    ]


def compare(given, release, found, measured):
    """The cells of a release, and how many programs are not right; prints what is not."""
    row = {"release": release, "torch": "", "ran": 0, "lacks": [], "fails": [], "replayed": 0, "entries": 0, "why": {}, "wrong": 0}
    row["equal"] = collections.Counter()
    for name, answer in found.items():
        if answer["how"] == "lacks":
            row["lacks"].append(name)
            continue
        if answer["how"] == "failed":
            print(f"{release} {name}: failed: {answer['error']}")
            row["fails"].append(name)
            row["wrong"] += 1
            continue
        row["torch"] = answer["torch"]
        row["ran"] += 1
        entries, equal = (answer["fidelity"].get(key, -1) for key in ("entries", "equal"))
        row["entries"] += entries
        row["replayed"] += entries == equal >= 0
        known = measured[name]
        for measure in MEASURES:
            row["equal"][measure] += all(answer["peaks"][device][measure] == known["peaks"][device][measure] for device in known["peaks"])
        reasons = differs(given, release, name, answer, known)
        for reason in reasons:
            row["why"].setdefault(reason, []).append(name)
        if entries != equal or None in reasons:
            row["wrong"] += 1
            print(f"{release} {name}: replayed {answer['fidelity']}, {answer['peaks']} instead of {known['peaks']}")
            print_requests(answer, known)
    print(f"torch {row['torch']}: {row['ran']} ran, {row['replayed']} replays equal, peaks {dict(row['equal'])}, lacks {row['lacks']}")
    return row


def differs(given, release, name, answer, known):
    """Why the peaks differ, if they do; `None` is among them if that is not known."""
    if answer["peaks"] == known["peaks"]:
        return []
    if same_requests(answer, known):
        # Then the release's rules must lead there.
        by_rules = all(predicted(given, release, name, device) == rules_decide(peaks) for device, peaks in answer["peaks"].items())
        return ["the choice of a free block"] if by_rules else [None]
    ours, theirs = (collections.Counter(request[1] for request in one["requests"]) for one in (answer, known))
    left = set((ours - theirs) + (theirs - ours))
    reasons = []
    for first, last, sizes, reason in REASONS:
        explained = left & (sizes.get("", set()) | sizes.get(name, set()))
        if first <= int(release.split(".")[1]) <= last and explained:
            reasons.append(reason)
            left -= explained
    return reasons + [None] if left or not reasons else reasons


def print_requests(answer, known):
    """Prints the requests that only one of them has."""
    ours, theirs = (collections.Counter(map(tuple, one["requests"])) for one in (answer, known))
    for sign, rest in (("+", ours - theirs), ("-", theirs - ours)):
        for (device, size, place), count in rest.most_common(8):
            print(f"  {sign} {count} x {size:,} on {device} by {place}")


def same_requests(answer, known):
    """Whether each asks for the same bytes, one after the other; its functions may have other names."""
    return [request[:2] for request in answer["requests"]] == [request[:2] for request in known["requests"]]


def rules_decide(peaks):
    return [peaks["allocated"], peaks["reserved"]]


def predicted(given, release, name, device):
    """The peaks of 2.11's recording under the rules of another release."""
    recording = given.answers / f"{BASELINE}.0/{name}.pickle"
    command = [given.highwater, "simulate", recording, "--torch", release.rpartition(".")[0], "--device", device, "--format", "json"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    if ran.returncode != 0:
        return None
    run = json.loads(ran.stdout)["runs"][0]
    return [run["peak_allocated_bytes"], run["peak_reserved_bytes"]]


def written(rows):
    """A sentence, and a line for each release."""
    goldens = collections.Counter(case["torch"] for case in json.loads(gzip.decompress(GOLDENS.read_bytes())))
    lines = [
        f"{len(PROGRAMS)} programs under {len(rows)} releases: training with four optimizers, checkpoints, gradient scaling, convolutions, an "
        "LSTM, generation, attention, CUDA graphs, compiled code, two GPUs, DDP, FSDP, settings of the allocator, streams and pools.",
        "",
        "| torch | ran | requested | allocated | reserved | replayed | goldens | other peaks than 2.11, because of |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | --- |",
    ]
    for row in rows:
        lacks = [f"{how} {', '.join(row[how])}" for how in ("lacks", "fails") if row[how]]
        why = [f"{reason} ({len(names)})" for reason, names in row["why"].items()]
        cells = [row["torch"], row["ran"], *(row["equal"][measure] for measure in MEASURES), f"{row['replayed']} ({row['entries']:,})"]
        cells += [goldens[row["release"].rpartition(".")[0] + ".0"] or "", "; ".join(lacks + why)]
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    write(BEGIN, END, lines)


if __name__ == "__main__":
    sys.exit(main())
