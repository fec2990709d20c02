#!/usr/bin/env python3
"""Runs each test of a file of PyTorch's own tests, and writes a line of JSON for each: on a GPU this is the truth, in a dry run the claim.

    python torch_tests.py OUT.jsonl test_cuda.py

PyTorch's tests need `expecttest`, `psutil` and `numpy` beside torch. A line has `test` (class and name), `result` (`passed`, `skipped`,
`failed`, `crashed`, `hung`), `why` (the error's last line, or the reason of the skip), and for a failure `at`, the line of the test. Tests run
one after the other in one process; after each that did not pass, the rest run in a new one. A test that takes longer than `--limit` seconds
hangs.

`--through` are the words before the script in a command that runs Python: `--through 'highwater dryrun --python python3'`; by default this
interpreter. `--at-once` splits the tests over processes that run at once. Standard library only, beside what the tests need.
"""

import argparse
import concurrent.futures
import importlib.util
import json
import os
import pathlib
import shlex
import signal
import subprocess
import sys
import tempfile
import time
import unittest

_BEGUN = "begun"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("file", type=pathlib.Path)
    parser.add_argument("tests", nargs="*", help="only these [default: all]")
    parser.add_argument("--through", default=shlex.quote(sys.executable), help="what runs a script")
    parser.add_argument("--limit", type=float, default=120, help="seconds for one test")
    parser.add_argument("--at-once", type=int, default=1)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_intermixed_args()
    if given.child:
        return child(given)
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        tests = given.tests or listed(given, folder / "list.jsonl")
        shares = [tests[start :: given.at_once] for start in range(given.at_once)]
        with concurrent.futures.ThreadPoolExecutor(given.at_once) as pool:
            jobs = [pool.submit(run, given, folder / f"{number}.jsonl", share) for number, share in enumerate(shares)]
            found = {row["test"]: row for job in jobs for row in job.result()}
    with given.out.open("w") as out:
        out.writelines(json.dumps(found[test]) + "\n" for test in tests)
    counts = {}
    for row in found.values():
        counts[row["result"]] = counts.get(row["result"], 0) + 1
    print(*(f"{count} {result}" for result, count in sorted(counts.items())), sep=", ")
    return 0


def listed(given, path):
    process = start(given, path, [], subprocess.PIPE)
    said, _ = process.communicate()
    if not path.exists():
        sys.exit(f"{given.file}: its tests could not be listed:\n{said[-4000:].decode(errors='replace')}")
    return [row["test"] for row in rows(path)]


def run(given, path, tests):
    """What became of each test, in processes that follow one another."""
    left = list(tests)
    while left:
        process = start(given, path, left, subprocess.DEVNULL)
        how = watch(given, process, path)
        ended = rows(path)
        if not ended or ended[-1]["result"] == _BEGUN:
            test = ended[-1]["test"] if ended else left[0]
            note(path, test=test, result=how, why=f"exit status {process.returncode}" if how == "crashed" else "")
        done = {row["test"] for row in rows(path)}
        left = [test for test in left if test not in done]
    return [row for row in rows(path) if row["result"] != _BEGUN]


def start(given, path, tests, said):
    command = [*shlex.split(given.through), str(pathlib.Path(__file__).resolve()), "--child", str(path), str(given.file.resolve()), *tests]
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=said, stderr=subprocess.STDOUT, start_new_session=True)


def watch(given, process, path):
    """Waits for a process; ends it if no test has ended for too long."""
    size, since = -1, time.monotonic()
    while process.poll() is None:
        now = path.stat().st_size if path.exists() else 0
        if now != size:
            size, since = now, time.monotonic()
        elif time.monotonic() - since > given.limit:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            return "hung"
        time.sleep(0.1)
    return "crashed"


def rows(path):
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def note(path, **row):
    with path.open("a") as out:
        out.write(json.dumps(row) + "\n")


def child(given):
    """Runs the tests that are named, up to the first that does not pass; lists all if none is."""
    sys.argv = [str(given.file)]
    sys.path.insert(0, str(given.file.parent))
    spec = importlib.util.spec_from_file_location(given.file.stem, given.file)
    module = sys.modules[given.file.stem] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    suite = {name(test): test for test in flat(unittest.defaultTestLoader.loadTestsFromModule(module))}
    for test in given.tests or suite:
        if given.tests:
            note(given.out, test=test, result=_BEGUN)
            result = Result(given.file)
            suite[test].run(result)
            note(given.out, test=test, **result.told())
            if result.told()["result"] == "failed":
                break
        else:
            note(given.out, test=test)
    sys.stdout.flush()
    sys.stderr.flush()
    return 0


def name(test):
    return ".".join(test.id().split(".")[-2:])


def flat(suite):
    for test in suite:
        yield from flat(test) if isinstance(test, unittest.TestSuite) else [test]


class Result(unittest.TestResult):
    def __init__(self, file):
        super().__init__()
        self._file = str(file)
        self._bad, self._skip = None, None

    def addError(self, test, err):
        super().addError(test, err)
        self._bad = self._bad or err

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self._bad = self._bad or err

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        self._bad = self._bad or err

    def addUnexpectedSuccess(self, test):
        super().addUnexpectedSuccess(test)
        self._bad = self._bad or (AssertionError, AssertionError("it was expected to fail"), None)

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self._skip = reason

    def told(self):
        if self._bad:
            kind, error, trace = self._bad
            return {"result": "failed", "why": f"{kind.__name__}: {short(str(error))}", "at": self._line(trace)}
        return {"result": "passed", "why": ""} if self._skip is None else {"result": "skipped", "why": short(self._skip)}

    def _line(self, trace):
        line = 0
        while trace is not None:
            if trace.tb_frame.f_code.co_filename == self._file:
                line = trace.tb_lineno
            trace = trace.tb_next
        return line


def short(text):
    lines = [line.strip() for line in text.strip().splitlines() if line.strip()]
    return " / ".join(lines[:6])[:400]


if __name__ == "__main__":
    sys.exit(main())
