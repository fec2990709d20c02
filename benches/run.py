#!/usr/bin/env python3
"""Measures `highwater report` against CPython's `pickle.load` and writes docs/benchmarks.md.

Standard library only. Each round runs the three in turn on the same file (highwater, pickle.load with the collector off,
with it on), so that a change of the machine's speed hits all alike; ratios are taken within a round. Only the part of
the page between the two marker comments is replaced.
"""

import argparse
import json
import os
import pathlib
import platform
import re
import resource
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
SIZES = [10_000, 100_000, 1_000_000]
LARGE = 10_000_000
RSS_UNIT = 1 if sys.platform == "darwin" else 1024

LOAD = """
import gc, pickle, sys, time
if sys.argv[2] == "off":
    gc.disable()
with open(sys.argv[1], "rb") as file:
    begun = time.perf_counter()
    snapshot = pickle.load(file)
    print(time.perf_counter() - begun, flush=True)
import os
os._exit(0)  # freeing the objects is not measured
"""


def snapshot_file(cache, entries):
    """The file of so many entries, made if it is not there."""
    path = cache / f"{entries}.pickle"
    if not path.exists():
        print(f"making {path.name} ...", flush=True)
        part = path.with_suffix(".part")
        generator = [sys.executable, ROOT / "benches/gen_snapshot.py", part]
        options = ["--entries", str(entries), "--seq-jitter", "0.5", "--seed", "1"]
        subprocess.run(generator + options, check=True, stdout=subprocess.DEVNULL)
        part.rename(path)
    return path


def run(command):
    """Runs it: what it writes, wall seconds, and the most memory it had at once in bytes."""
    begun = time.perf_counter()
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    out = child.stdout.read()
    _, status, usage = os.wait4(child.pid, 0)
    wall = time.perf_counter() - begun
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != 0:
        raise SystemExit(f"{command[0]} ended with {child.returncode}: {command}")
    return out, wall, usage.ru_maxrss * RSS_UNIT


def highwater(binary, path):
    """The whole process is the command as people give it; a second run says how long its parts take."""
    _, wall, peak = run([binary, "report", path])
    out, _, _ = run([binary, "report", path, "--timings", "--format", "json"])
    report = json.loads(out)
    return {
        "entries": sum(device["entries"] for device in report["devices"]),
        "read": report["timings"]["read_secs"],
        "analyse": report["timings"]["analyse_secs"],
        "wall": wall,
        "peak": peak,
    }


def cpython(path, collector):
    out, _, peak = run([sys.executable, "-c", LOAD, path, collector])
    return {"read": float(out), "peak": peak}


def measure(binary, path, runs):
    """The runs of each contender, in rounds."""
    highwater(binary, path)  # warms the page cache
    rounds = []
    for number in range(runs):
        print(f"{path.name}: round {number + 1} of {runs}", flush=True)
        rounds.append((highwater(binary, path), cpython(path, "off"), cpython(path, "on")))
    ours, off, on = zip(*rounds)
    return {"bytes": path.stat().st_size, "entries": ours[0]["entries"], "ours": ours, "off": off, "on": on}


# ---- the page


def median(rows, key):
    return statistics.median(row[key] for row in rows)


def least(rows, key):
    return min(row[key] for row in rows)


def ratio(of, to):
    """The median of the ratios within the rounds."""
    return statistics.median(a["read"] / b["read"] for a, b in zip(of, to))


def seconds(value):
    return f"{value * 1000:.1f} ms" if value < 0.1 else f"{value:.3f} s" if value < 10 else f"{value:.1f} s"


def both(rows, key):
    return f"{seconds(least(rows, key))} / {seconds(median(rows, key))}"


def memory(rows, size):
    """The peak; a child begins with that of the process that starts it, so less than our own cannot be seen."""
    peak = max(row["peak"] for row in rows)
    if peak < 1.1 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * RSS_UNIT:
        return f"below {peak / 1e6:,.0f} MB"
    return f"{peak / 1e6:,.0f} MB ({peak / size:.2f}×)"


def table(head, rows):
    lines = ["| " + " | ".join(row) + " |" for row in [head, ["---"] + ["---:"] * (len(head) - 1), *rows]]
    return "\n".join(lines)


def reading(results):
    head = ["entries", "file", "bytes to columns", "bytes/s", "entries/s", "`pickle.load`, gc off", "ratio",
            "`pickle.load`, gc on", "ratio"]  # fmt: skip
    rows = []
    for result in results:
        ours, off, on = result["ours"], result["off"], result["on"]
        best, usual = least(ours, "read"), median(ours, "read")
        rows.append([
            f"{result['entries']:,}",
            f"{result['bytes'] / 1e6:,.1f} MB",
            both(ours, "read"),
            f"{result['bytes'] / best / 1e9:.2f} / {result['bytes'] / usual / 1e9:.2f} GB/s",
            f"{result['entries'] / best / 1e6:.1f} / {result['entries'] / usual / 1e6:.1f} M/s",
            both(off, "read"),
            f"{ratio(off, ours):.1f}",
            both(on, "read"),
            f"{ratio(on, ours):.1f}",
        ])  # fmt: skip
    return table(head, rows)


def reporting(results):
    head = ["entries", "file", "analysis", "whole process", "peak memory", "`pickle.load`, gc off: peak memory"]
    rows = [
        [
            f"{result['entries']:,}",
            f"{result['bytes'] / 1e6:,.1f} MB",
            both(result["ours"], "analyse"),
            both(result["ours"], "wall"),
            memory(result["ours"], result["bytes"]),
            memory(result["off"], result["bytes"]),
        ]
        for result in results
    ]
    return table(head, rows)


def budgets(results):
    """Each budget with what was measured; medians, so that one lucky run proves nothing."""
    rows = []

    def row(what, budget, measured, met):
        rows.append([what, budget, measured, "yes" if met else "**no**"])

    for result in results:
        count, ours = result["entries"], result["ours"]
        if count < SIZES[-1]:
            continue
        speed = result["bytes"] / median(ours, "read") / 1e9
        off, on = ratio(result["off"], ours), ratio(result["on"], ours)
        wall, peak = median(ours, "wall"), max(r["peak"] for r in ours) / result["bytes"]
        limit = 0.5 if count < LARGE else 4.0
        row(f"bytes to columns, {count:,} entries", "1 GB/s on a core", f"{speed:.2f} GB/s", speed >= 1)
        row(f"against `pickle.load`, gc off, {count:,}", "6 times", f"{off:.1f} times", off >= 6)
        row(f"against `pickle.load`, gc on, {count:,}", "20 times", f"{on:.1f} times", on >= 20)
        row(f"`report`, {count:,} entries", f"under {limit} s", seconds(wall), wall < limit)
        row(f"its peak memory, {count:,}", "under 2 times the file", f"{peak:.2f} times", peak < 2)
    return table(["measure", "budget", "measured (median)", "met"], rows)


def cpu_model():
    try:
        text = pathlib.Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.processor() or platform.machine()
    found = re.search(r"^model name\s*: (.*)$", text, re.MULTILINE)
    kind = "virtual machine" if re.search(r"^flags\s*:.*\bhypervisor\b", text, re.MULTILINE) else "machine"
    return f"{kind}, {found[1] if found else platform.machine()}"


def commit():
    def git(*words):
        return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True).stdout.strip()

    changed = git("status", "--porcelain", "--untracked-files=no", "crates", "Cargo.toml", "Cargo.lock")
    return (git("rev-parse", "--short", "HEAD") or "unknown") + (" with changes" if changed else "")


def generated(results, runs, load):
    about = (
        f"{os.cpu_count()}-core {cpu_model()}; load average before: {load:.1f}. Commit {commit()}. "
        f"CPython {platform.python_version()}. Warm page cache, {runs} rounds: min / median; "
        "a ratio is the median of the ratios within the rounds."
    )
    parts = [about, budgets(results), "### Reading", reading(results), "### The whole report", reporting(results)]
    return "\n\n".join(parts)


def write_page(page, script, text):
    """Replaces what stands between the two comments of a script."""
    begin, end = (f"<!-- made by {script}: {word} -->" for word in ("begin", "end"))
    old = page.read_text() if page.exists() else f"# Benchmarks\n\n{begin}\n{end}\n"
    before, rest = old.split(begin)
    _, after = rest.split(end)
    page.write_text(f"{before}{begin}\n\n{text}\n\n{end}{after}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", type=pathlib.Path, default=ROOT / "target/release/highwater")
    parser.add_argument("--cache", type=pathlib.Path, default=ROOT / "target/bench", help="where the files lie")
    parser.add_argument("--page", type=pathlib.Path, default=ROOT / "docs/benchmarks.md")
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--large", action="store_true", help="also 10 million entries: 1.3 GB, 10 GB in CPython")
    args = parser.parse_args()
    args.cache.mkdir(parents=True, exist_ok=True)
    load = os.getloadavg()[0]
    sizes = SIZES + [LARGE] * args.large
    results = [measure(args.binary, snapshot_file(args.cache, size), args.runs) for size in sizes]
    write_page(args.page, "benches/run.py", generated(results, args.runs, load))


if __name__ == "__main__":
    main()
