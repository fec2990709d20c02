"""Changes inputs by rules and runs the program's commands on them: `python3 fuzz/mutations --count 300 --seed 2`.

An input passes if every command that is tried on it
  * ends by itself, within --wall seconds, with status 0, 1 or 2, and never says "panicked";
  * says something on standard error with status 2, and on standard output with status 0 or 1;
  * holds less memory than the program that does nothing, 20 MiB and 30 times the bytes that it has to read, decompressed;
  * writes no control characters and no change of writing direction to text and Markdown, strict JSON, CSV with rows of one length,
    and pickles that load.
Every failure is printed as it is found, with the file that makes it again. The last line is "N passed, M failed". The status is 1 if
an input failed, or if the time was over before a group had all its inputs.
The same count and seed give the same inputs. It needs the standard library only.
"""

import argparse
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(1, str(Path(__file__).resolve().parent.parent))

import attacks  # noqa: E402
import judge  # noqa: E402
import models  # noqa: E402
import snapshots  # noqa: E402
import texts  # noqa: E402

# Each group with its share of the inputs in percent; None is a fixed list of inputs, which takes minutes.
GROUPS = {
    "snapshots": (snapshots.snapshots, 37), "wrappers": (snapshots.wrappers, 10), "names": (snapshots.names, 10),
    "profiler": (snapshots.profiler, 5), "logs": (texts.logs, 10), "requests": (texts.requests, 10), "hwlog": (texts.hwlog, 5),
    "budgets": (texts.budgets, 3), "models": (models.models, 10), "attacks": (attacks.attacks, None),
    "environments": (attacks.environments, None), "outputs": (attacks.outputs, None),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", type=Path, default="target/release/highwater", help="[default: %(default)s]")
    parser.add_argument("--count", type=int, default=3000, help="inputs in all groups that are drawn [default: %(default)s]")
    parser.add_argument("--seed", type=int, default=1, help="of the random numbers [default: %(default)s]")
    parser.add_argument("--seconds", type=float, default=900, help="time for the groups that are drawn; the fixed lists take minutes beside [default: %(default)s]")
    parser.add_argument("--wall", type=float, default=10, help="seconds that a command may take [default: %(default)s]")
    parser.add_argument("--only", default="", help=f"groups, separated by commas, of: {', '.join(GROUPS)}")
    parser.add_argument("--drawn", action="store_true", help="leave out the groups that are fixed lists")
    parser.add_argument("--keep", type=Path, help="where failing inputs go [default: a new temporary folder]")
    options = parser.parse_args()
    if not options.binary.is_file():
        parser.error(f"--binary {options.binary}: there is no such file; `make build` makes target/release/highwater")
    chosen = options.only.split(",") if options.only else [name for name, (_, share) in GROUPS.items() if share or not options.drawn]
    keep = options.keep or Path(tempfile.mkdtemp(prefix="highwater-mutations-failed-"))
    keep.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix="highwater-mutations-"))
    check = judge.Check(str(options.binary.resolve()), options.wall, None, keep, work, time.monotonic() + options.seconds)
    cut_short = []
    for name in chosen:
        group, share = GROUPS[name]
        # A group does not change what the next one draws, or what it finds beside its files.
        check.rng = random.Random(f"{options.seed} {name}")
        check.work = work / name
        check.work.mkdir()
        check.cut_short = False
        group(check, options.count * (share or 0) // 100)
        cut_short += [name] if check.cut_short else []
    shutil.rmtree(work)
    if not any(keep.iterdir()) and not options.keep:
        keep.rmdir()
    print("inputs by group:", check.inputs)
    print("runs with status 0 or 1 by group:", check.accepted, "of", check.runs)
    if cut_short:
        print(f"cut short after {options.seconds:.0f} s: {', '.join(cut_short)}; give more --seconds, or a lower --count")
    print(f"{check.passed} passed, {check.failed} failed")
    return 1 if check.failed or cut_short else 0


if __name__ == "__main__":
    sys.exit(main())
