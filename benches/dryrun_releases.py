#!/usr/bin/env python3
"""Runs the same programs, dry, over releases of PyTorch, one after the other, and compares each with torch 2.11, which a GPU has measured.

Standard library only. Installs a release with pip, without NVIDIA's libraries, into `--folder` (2 GB), runs testdata/recipes/release_programs.py,
and deletes it again; a release whose wheel cannot be had is skipped with a sentence. A release takes five minutes. `--python` names an
interpreter for which each has a wheel. Answers are kept in `--answers`: what is there is not run again. `--write` puts all of them into
docs/dryrun-accuracy.md.

A release is right if each program runs, if its own recording replays under its rules entry by entry, and if the peaks are those of torch 2.11. If
they are not, the recording of 2.11 replayed under the release's rules must have them, or `REASONS` say why they differ. The exit
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
    "adamw adamw_fused sgd checkpointed scaled convolutions lstm generation attention graph compiled expandable split rounded streams pool".split(),
    (),
) | {"two_devices": ("--gpus", "2"), "ddp": RANKS, "fsdp": RANKS, "fsdp2": RANKS}
LACKS = 3
"""The status of a program that needs what a release has not."""
REASONS = {}
"""Why the requests of a program differ from those of torch 2.11: first and last release, programs, the reason."""


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
        for name in missing:
            (kept / f"{name}.json").write_text(json.dumps(dry_run(given, release, folder, name)))
        if not installed:
            shutil.rmtree(folder)
    return {name: json.loads((kept / f"{name}.json").read_text()) for name in PROGRAMS}


def install(given, release):
    folder = given.folder.resolve() / f"torch-{release}"
    shutil.rmtree(folder, ignore_errors=True)
    pip = [given.python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile", "--no-cache-dir", "--no-deps", "--target", folder]
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
    """One program: what became of it, its peaks by device, and its requests, each with its place."""
    kept = given.answers.resolve() / release
    recording = kept / f"{name}.pickle"
    with tempfile.TemporaryDirectory() as scratch:
        command = [given.highwater.resolve(), "dryrun", "--gpu", "h200", "--timeout", "10m", "--format", "json", "-o", recording, "--force"]
        command += [*PROGRAMS[name], "--timing", "at-once", "--python", given.python, RECIPE, name]
        environment = {**os.environ, "PYTHONPATH": str(folder.resolve()), "TMPDIR": scratch, "TORCHINDUCTOR_CACHE_DIR": scratch}
        ran = subprocess.run(command, capture_output=True, text=True, check=False, cwd=scratch, env=environment)
    try:
        answer = json.loads(ran.stdout)
        (process,) = (one for one in answer["processes"] if one["devices"])
    except ValueError:
        return {"how": "failed", "error": ran.stderr[-2000:]}
    if ran.returncode != 0:
        how = "lacks" if f"SystemExit: {LACKS}" in process["error"] else "failed"
        return {"how": how, "error": ran.stderr[-2000:]}
    command = [given.highwater, "simulate", recording, "--verify", "--torch", release.rpartition(".")[0], "--format", "json"]
    verified = subprocess.run(command, capture_output=True, text=True, check=False)
    peaks = {device["device"]: {measure: device[f"peak_{measure}_bytes"] for measure in MEASURES} for device in process["devices"]}
    fidelity = json.loads(verified.stdout)["fidelity"] if verified.returncode in (0, 1) else {"error": verified.stderr[-500:]}
    return {"how": "ran", "torch": process["torch"], "peaks": peaks, "fidelity": fidelity, "equal": verified.returncode == 0, "requests": requests(recording)}


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
    """The cells of a release, and how many programs are not right; prints each that differs."""
    row = {"release": release, "torch": "", "ran": 0, "lacks": [], "replayed": 0, "equal": collections.Counter(), "why": {}, "wrong": 0}
    for name, answer in found.items():
        if answer["how"] == "lacks":
            row["lacks"].append(name)
            continue
        if answer["how"] == "failed":
            print(f"{release} {name}: failed: {answer['error'][-600:]}")
            row["wrong"] += 1
            continue
        row["torch"] = answer["torch"]
        row["ran"] += 1
        row["replayed"] += answer["equal"]
        if not answer["equal"]:
            print(f"{release} {name}: its replay differs: {answer['fidelity']}")
        known = measured[name]
        for measure in MEASURES:
            row["equal"][measure] += all(answer["peaks"][device][measure] == known["peaks"][device][measure] for device in known["peaks"])
        reason = differs(given, release, name, answer, known)
        row["why"].setdefault(reason, []).append(name)
        row["wrong"] += not answer["equal"] or reason == "not known"
    print(f"torch {row['torch']}: {row['ran']} ran, {row['replayed']} replays equal,", dict(row["equal"]), row["lacks"], row["why"], flush=True)
    return row


def differs(given, release, name, answer, known):
    """Why the peaks differ; nothing if they do not."""
    if answer["peaks"] == known["peaks"]:
        return ""
    if same_requests(answer, known) and all(predicted(given, release, name, device) == rules_decide(peaks) for device, peaks in answer["peaks"].items()):
        return "rules"
    for (first, last, programs), reason in REASONS.items():
        if first <= minor(release) <= last and name in programs.split():
            return reason
    ours, theirs = (collections.Counter(tuple(request) for request in one["requests"]) for one in (answer, known))
    print(f"{release} {name}: {answer['peaks']} instead of {known['peaks']}")
    for sign, rest in (("+", ours - theirs), ("-", theirs - ours)):
        for (device, size, place), count in rest.most_common(8):
            print(f"  {sign} {count} x {size:,} on {device} by {place}")
    return "not known"


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


def minor(release):
    return int(release.split(".")[1])


def written(rows):
    """A sentence, and a line for each release."""
    goldens = collections.Counter(case["torch"] for case in json.loads(gzip.decompress(GOLDENS.read_bytes())))
    lines = [
        f"{len(PROGRAMS)} programs under {len(rows)} releases: training with four optimizers, checkpoints, gradient scaling, convolutions, an LSTM, "
        "generation, attention, CUDA graphs, compiled code, two GPUs, DDP, FSDP, settings of the allocator, streams and pools.",
        "",
        "| torch | ran | requested | allocated | reserved | replayed | goldens | other peaks than 2.11, because of |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | --- |",
    ]
    for row in rows:
        lacks = [f"lacks {', '.join(row['lacks'])}"] if row["lacks"] else []
        why = [f"{reason}: {', '.join(names)}" for reason, names in row["why"].items() if reason]
        cells = [row["torch"], row["ran"], *(row["equal"][measure] for measure in MEASURES), row["replayed"]]
        cells += [goldens[row["release"].rpartition(".")[0] + ".0"] or "", "; ".join(lacks + why)]
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    write(BEGIN, END, lines)


if __name__ == "__main__":
    sys.exit(main())
