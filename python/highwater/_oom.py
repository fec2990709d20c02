"""The moment when a request fails: its observers, and the explanation afterwards."""

from __future__ import annotations

import _thread
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

from highwater import _torch
from highwater._errors import SnapshotError
from highwater._notice import notice

_dumped: Path | None = None
"""The newest file that shows a failure."""

_is_hooked = False
_observed: list[Callable[[], None]] = []


def observe(failed: Callable[[], None]) -> None:
    """Has ``failed`` called at each failure, from now on until :func:`forget`."""
    _hook()
    _observed.append(failed)


def forget(failed: Callable[[], None]) -> None:
    """Ends :func:`observe`."""
    if failed in _observed:
        _observed.remove(failed)


def dumped(path: Path) -> None:
    """Notes which file shows the newest failure."""
    global _dumped
    _dumped = path


def _hook() -> None:
    """Once for a process: there is no way to take an observer back."""
    global _is_hooked
    if _is_hooked:
        return
    _is_hooked = True
    if not _torch.attach_oom_observer(_observer):
        notice("this torch does not report when memory runs out: the dump is written when the recording ends")
    before, before_in_threads = sys.excepthook, threading.excepthook

    def hook(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
        before(kind, error, traceback)
        explain(error)

    def hook_in_threads(arguments: Any) -> None:
        before_in_threads(arguments)
        explain(arguments.exc_value)

    sys.excepthook = hook
    threading.excepthook = hook_in_threads


def _observer(device: int, alloc: int, device_total: int, device_free: int) -> None:
    """PyTorch calls it during the request that fails: it must not raise."""
    try:
        for failed in list(_observed):
            failed()
    except KeyboardInterrupt:
        # Not here, where it would take the error's place: as soon as Python can.
        _thread.interrupt_main()
    except BaseException as error:
        notice(f"the failed request could not be recorded: {error!r}")


def explain_in_notebook(error: BaseException | None) -> None:
    """As :func:`explain`, where a notebook prints tracebacks by itself and calls no hook."""
    notebook = sys.modules.get("IPython")
    if notebook is not None and notebook.get_ipython() is not None:
        explain(error)


def explain(error: BaseException | None) -> None:
    """Explains on standard error why memory ran out, if ``error`` is such an error and a recording shows it."""
    if _dumped is None or not _torch.is_out_of_memory(error):
        return
    from highwater._snapshot import load

    try:
        text = load(_dumped).explain(str(error))
    except (SnapshotError, OSError, MemoryError) as problem:
        text = f"the recording cannot be explained: {problem}"
    print(f"\nhighwater: {text}", file=sys.stderr, flush=True)
