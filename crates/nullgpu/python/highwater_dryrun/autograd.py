"""Autograd's threads let go of what they used before the program goes on, as on a GPU.

The thread of a device says that a backward pass is done, and only then drops its own references, the gradients that `autograd.grad`
returns among them. On a GPU it has long dropped them when the program gets to free memory. Here the program waits for nothing, and on a
busy machine it may go on first: whatever it frees or captures next then finds other free blocks.
"""

from __future__ import annotations

import functools
import os
import threading
import time
from typing import Any

_NAME = "pt_autograd"
"""With which the names of PyTorch's threads for backward passes begin."""
_LOOK_SECS = 0.0001
_PATIENCE_SECS = 2.0
_LOOKS = 2
"""A thread that has not such a name after so many looks never gets it."""
_TASKS = "/proc/self/task"


def begin(torch: Any) -> None:
    """Has each backward pass end with its threads at rest."""
    plain = getattr(torch.autograd, "_engine_run_backward", None)
    if plain is None:
        return
    threads = _Threads()

    @functools.wraps(plain)
    def run(*arguments: Any, **options: Any) -> Any:
        result = plain(*arguments, **options)
        threads.rest()
        return result

    torch.autograd._engine_run_backward = run


class _Threads:
    """Autograd's threads in this process, by their numbers."""

    def __init__(self) -> None:
        self._process = 0
        self._autograd: "set[str]" = set()
        self._others: "dict[str, int]" = {}
        """How often each other thread was looked at."""
        self._never_rest = False

    def rest(self) -> None:
        """Waits until none of them is at work."""
        if self._never_rest:
            return
        own = str(threading.get_native_id())
        until = time.monotonic() + _PATIENCE_SECS
        # One that waits for Python itself does not seem to be at work, and gets it while this one sleeps.
        time.sleep(_LOOK_SECS)
        self._find()
        while any(_is_at_work(thread) for thread in self._autograd if thread != own):
            if time.monotonic() > until:
                # The program has other backward passes at the same time.
                self._never_rest = True
                return
            time.sleep(_LOOK_SECS)

    def _find(self) -> None:
        if self._process != os.getpid():
            self._process = os.getpid()
            self._autograd.clear()
            self._others.clear()
        try:
            threads = os.listdir(_TASKS)
        except OSError:
            return
        self._autograd.intersection_update(threads)
        for thread in threads:
            looks = self._others.get(thread, 0)
            if thread in self._autograd or looks >= _LOOKS:
                continue
            if _read(thread, "comm").startswith(_NAME):
                self._autograd.add(thread)
            else:
                self._others[thread] = looks + 1


def _is_at_work(thread: str) -> bool:
    """Whether it runs, or could if there were a processor for it."""
    return _read(thread, "stat").rpartition(")")[2].lstrip().startswith("R")


def _read(thread: str, name: str) -> str:
    try:
        with open(f"{_TASKS}/{thread}/{name}", errors="replace") as file:
            return file.read()
    except OSError:
        return ""
