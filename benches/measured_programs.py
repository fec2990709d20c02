"""What the comparisons of dry runs with measured programs share: a process for each program, a part of docs/dryrun-accuracy.md."""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
MEASURES = ("requested", "allocated", "reserved")


def arguments(about):
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--python", required=True, help="the interpreter that has torch")
    parser.add_argument("--highwater", default=ROOT / "target/release/highwater", type=pathlib.Path)
    return parser.parse_args()


def differences(given, recipe, real):
    """By how much a dry run of the program is above what was measured, as shares of that."""
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "peaks.jsonl"
        recording = pathlib.Path(folder) / "run.pickle"
        command = [given.highwater, "dryrun", "--gpu", "h200", "--python", given.python, "-o", recording, recipe, out, real["program"]]
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
        if ran.returncode != 0:
            sys.exit(ran.stderr)
        dry = json.loads(out.read_text())
    return [(dry[measure] - real[measure]) / real[measure] for measure in MEASURES]


def percent(share):
    return "0" if share == 0 else f"{share:+.3%}"


def write(begin, end, lines):
    """Puts lines between two marks of the page."""
    page = ROOT / "docs/dryrun-accuracy.md"
    before, _, rest = page.read_text().partition(begin)
    page.write_text(before + begin + "\n" + "\n".join(lines) + "\n\n" + end + rest.partition(end)[2])
    print(f"wrote {page.relative_to(ROOT)}")
