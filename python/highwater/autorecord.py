"""Recording without a change of code.

``highwater run train.py …`` and ``python -m highwater.autorecord train.py …`` run a script and record it. With
``HIGHWATER_RECORD=run.pickle`` in the environment, every Python program that uses CUDA records itself; the module
``highwater_autorecord``, beside this package, then waits for torch, and calls :func:`start`.
"""

from __future__ import annotations

import argparse
import atexit
import multiprocessing
import os
import runpy
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from types import TracebackType

    from highwater._record import Recorder

WITH_VALUE = ("--record", "--max-entries", "--stacks")
"""Options whose value is a word of its own."""

_recorder: Recorder | None = None


def main(arguments: Sequence[str] | None = None, *, program: str = "python -m highwater.autorecord") -> int:
    """Runs a script and records it; gives its exit status."""
    parser = _parser(program)
    own, script = _split(sys.argv[1:] if arguments is None else list(arguments))
    given = parser.parse_args(own)
    if not script or script == ["-m"]:
        parser.error("a script is needed, or a module with `-m`")
    if script[0] != "-m" and not os.path.exists(script[0]):
        parser.error(f"there is no script `{script[0]}`")
    stacks = None if given.stacks == "none" else given.stacks
    start(given.record, max_entries=given.max_entries, stacks=stacks, driver=given.driver or None)
    _hide_own_frames()
    if script[0] == "-m":
        sys.argv = script[1:]
        sys.path.insert(0, os.getcwd())
        runpy.run_module(script[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = script
        sys.path.insert(0, os.path.dirname(os.path.abspath(script[0])))
        runpy.run_path(script[0], run_name="__main__")
    return 0


def _split(words: list[str]) -> tuple[list[str], list[str]]:
    """Our own options, and the script or ``-m`` and module with all that is theirs."""
    at = 0
    while at < len(words) and words[at].startswith("-") and words[at] != "-m":
        at += 2 if words[at] in WITH_VALUE else 1
    return words[:at], words[at:]


def _parser(program: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=program,
        usage=f"{program} [options] SCRIPT|-m MODULE ...",
        description="Runs a Python script and records its GPU memory. Arguments after the script are the script's.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "--record",
        metavar="FILE",
        default="highwater.pickle",
        help="the file to write, or a directory; under torchrun one file per rank [default: %(default)s, or rank0.pickle]",
    )
    parser.add_argument("--max-entries", type=int, metavar="N", default=None, help="number of entries to keep")
    parser.add_argument(
        "--stacks",
        choices=["python", "all", "none"],
        default="python",
        help="frames to record [default: %(default)s]",
    )
    parser.add_argument(
        "--driver", action="store_true", help="also record the driver's allocations, of every library of the process"
    )
    return parser


def start(
    target: str,
    *,
    max_entries: int | None = None,
    stacks: Literal["python", "all"] | None = "python",
    driver: bool | None = None,
) -> None:
    """Records from now to the end of the process."""
    global _recorder
    if _recorder is not None:
        return
    from highwater._process import ProcessRecorder
    from highwater._record import MAX_ENTRIES

    entries = MAX_ENTRIES if max_entries is None else max_entries
    _recorder = ProcessRecorder(target, max_entries=entries, stacks=stacks, driver=driver)
    _recorder.start()
    _at_exit()


def _hide_own_frames() -> None:
    """Lets tracebacks begin in the script, as they do without a recorder."""
    shown = sys.excepthook

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        trace = _of_script(trace)
        shown(kind, error.with_traceback(trace), trace)

    sys.excepthook = hook


def _of_script(trace: TracebackType | None) -> TracebackType | None:
    """A traceback from the script's first frame on: before it come those of :func:`main` and of :mod:`runpy`."""
    whole = trace
    while trace is not None and _file(trace) != __file__:
        trace = trace.tb_next
    if trace is None:
        return whole
    while trace is not None and _file(trace) in (__file__, runpy.__file__, "<frozen runpy>"):
        trace = trace.tb_next
    return trace


def _file(trace: TracebackType) -> str:
    return trace.tb_frame.f_code.co_filename


def _at_exit() -> None:
    """Stops when the process ends. Children of :mod:`multiprocessing` end without :mod:`atexit`."""
    if multiprocessing.parent_process() is not None:
        from multiprocessing import util

        util.Finalize(None, _stop, exitpriority=100)
    else:
        atexit.register(_stop)


def _stop() -> None:
    if _recorder is not None:
        # What ended the program decides which state is kept.
        error = getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
        _recorder._stop(error)


if __name__ == "__main__":
    # The module that others import, so that there is one recorder.
    from highwater import autorecord

    sys.exit(autorecord.main())
