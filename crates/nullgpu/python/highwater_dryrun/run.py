"""The run as this process sees it: from the first use of CUDA to the end, whichever way it ends."""

from __future__ import annotations

import atexit
import functools
import multiprocessing
import os
import signal
import sys
import threading
import time
import traceback
import weakref
from types import FrameType, TracebackType
from typing import Any, NoReturn

from highwater_dryrun import autograd, core, farewell, importing, notes, padding, terminated
from highwater_dryrun.history import History
from highwater_dryrun.reads import Places
from highwater_dryrun.settings import Settings

_TIMED_OUT = 124
"""The exit status of a run that took too long, as of `timeout`."""


_HERE = os.path.dirname(os.path.abspath(__file__))
_STACK_LINES = 8
_PATIENCE_SECS = 60.0


def begin(wanted: Settings) -> None:
    """Begins, now that the program has imported torch."""
    torch = sys.modules["torch"]
    history = History(torch)
    padding.decide()
    autograd.begin(torch)
    followed = None
    if wanted.values:
        from highwater_dryrun import values

        # The very call that first uses CUDA may bring a value there.
        followed = values.begin(wanted.assume)
    # Until CUDA is used the program may fork, and choose its devices.
    torch.cuda._lazy_call(lambda: _Run(wanted, torch, history, followed))


class _Run:
    def __init__(self, wanted: Settings, torch: Any, history: History, values: Any) -> None:
        self._wanted = wanted
        self._torch = torch
        self._process = os.getpid()
        self._ending = threading.Lock()
        self._written = threading.Event()
        self._error: "BaseException | None" = None
        self._steps: "weakref.WeakKeyDictionary[Any, int]" = weakref.WeakKeyDictionary()
        self._done_steps = 0
        self._failed: "notes.Failure | None" = None
        self._history = history
        if getattr(sys, "_is_gil_enabled", lambda: True)():
            is_main = threading.current_thread() is threading.main_thread()
            core.library().highwater_nullgpu_read_python(is_main)
        history.begin()
        self._values = values
        self._attach()

    def _attach(self) -> None:
        attach = getattr(self._torch._C, "_cuda_attach_out_of_memory_observer", None)
        if attach is not None:
            attach(self._out_of_memory)
        self._hook_before = sys.excepthook
        sys.excepthook = self._uncaught
        core.when_crashed(self._crashed)
        self._count_steps()
        if self._wanted.launched_ranks <= 1:
            farewell.when_found(lambda: terminated.hear(self._terminated))
        if self._wanted.deadline is not None:
            threading.Thread(target=self._wait, name="highwater", daemon=True).start()
        if multiprocessing.parent_process() is not None:
            from multiprocessing import util

            # Its children end without `atexit`.
            util.Finalize(None, self._exits, exitpriority=0)
        else:
            atexit.register(self._exits)
        exit_at_once = os._exit

        @functools.wraps(exit_at_once)
        def leave(status: int) -> NoReturn:
            # Launchers and servers end like this, without `atexit`.
            self._write("error", error=f"os._exit({status})") if status else self._write("exit")
            if os.getpid() == self._process:
                core.library().highwater_nullgpu_write_trace()
            exit_at_once(status)

        os._exit = leave

    def _count_steps(self) -> None:
        # Not before the program imports it: it draws much else in.
        def hook(module: Any) -> None:
            module.register_optimizer_step_post_hook(self._stepped)

        importing.after("torch.optim.optimizer", hook)

    def _stepped(self, optimizer: Any, *_: Any) -> None:
        """Several optimizers step side by side; the one that steps most counts."""
        count = self._steps.get(optimizer, 0) + 1
        self._steps[optimizer] = count
        self._done_steps = max(self._done_steps, count)
        core.library().highwater_nullgpu_has_stepped()
        if self._values:
            self._values.modules.steps = self._done_steps
        if self._wanted.steps is not None and count >= self._wanted.steps:
            self._leave("steps", 0)

    def _out_of_memory(self, device: int, requested: int, total: int, free: int) -> None:
        """PyTorch calls this before it raises: what is live now is what filled the card."""
        if self._failed is not None:
            # A program that goes on after one may fail a thousand times.
            self._failed.count += 1
            return
        self._failed = notes.Failure(device=device, requested_bytes=requested)
        with self._unwatched():
            self._failed.snapshot = notes.write_snapshot(self._wanted.directory, self._history.whole(), "oom")

    def _uncaught(
        self, kind: "type[BaseException]", error: BaseException, trace: "TracebackType | None"
    ) -> None:
        self._error = error
        self._hook_before(kind, error, trace)

    def _crashed(self, number: int, last: str) -> None:
        name = signal.Signals(number).name
        error = f"{name} after a call of `{last}`" if last else name
        self._write("crash", error=error, at=sys._getframe())

    def _terminated(self, frame: "FrameType | None") -> None:
        self._write("interrupted", at=frame)

    def _wait(self) -> None:
        deadline = self._wanted.deadline or 0.0
        while (left := deadline - time.time()) > 0:
            time.sleep(min(left, 1.0))
        self._leave("timeout", _TIMED_OUT, at=sys._current_frames().get(threading.main_thread().ident or 0))

    def _exits(self) -> None:
        # A process that the program has started tells its starter of an error, and nobody else.
        error = self._error or getattr(sys, "last_value", None) or sys.exc_info()[1]
        if isinstance(error, SystemExit) and isinstance(error.code, int) and error.code and error.__context__:
            error = error.__context__
        if isinstance(error, KeyboardInterrupt):
            self._write("interrupted", place=Places(self._torch).of_error(error))
        elif error is not None and not (isinstance(error, SystemExit) and error.code in (0, None)):
            text = "".join(traceback.format_exception_only(type(error), error)).strip()
            self._write("oom" if self._is_out_of_memory(error) else "error", error=text)
        else:
            self._write("exit")

    def _is_out_of_memory(self, error: "BaseException | None") -> bool:
        own = getattr(self._torch, "OutOfMemoryError", None) or self._torch.cuda.OutOfMemoryError
        while error is not None:
            if isinstance(error, own):
                return True
            error = error.__cause__ or error.__context__
        return False

    def _leave(self, how: str, status: int, at: "FrameType | None" = None) -> None:
        """Ends the process here and now: what the program would do in `finally` is not run."""
        self._write(how, at=at)
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except (OSError, ValueError):
                pass
        for child in multiprocessing.active_children():
            child.terminate()
        if how == "steps":
            farewell.wait_for_others()
        os._exit(status)

    def _write(self, how: str, error: str = "", at: "FrameType | None" = None, place: "str | None" = None) -> None:
        """Leaves a snapshot and a note, once; a forked child has nothing of its own to leave.

        ``at`` is where the program was, if no message says so; ``place`` is its own line of that.
        """
        if os.getpid() != self._process:
            return
        if not self._ending.acquire(blocking=False):
            # The process shall not end before another thread has written. One that crashes may be that thread.
            if how != "crash":
                self._written.wait(_PATIENCE_SECS)
            return
        try:
            with self._unwatched():
                snapshot = notes.write_snapshot(self._wanted.directory, self._history.whole(), "end")
                notes.write(
                    self._wanted.directory,
                    how=how,
                    error=error,
                    stack="" if at is None else _stack(at),
                    place=place or Places(self._torch).innermost(at) or "",
                    waits_for=(core.library().highwater_nullgpu_waited_for() or b"").decode(errors="replace"),
                    snapshot=snapshot,
                    steps=self._done_steps,
                    failed=self._failed,
                    reads=self._values.reads() if self._values else [],
                    assumed=self._values.assumptions() if self._values else [],
                    could_differ=self._values.could_differ() if self._values else False,
                    last_read=self._values.last_read() if self._values and how == "error" else None,
                    torch=self._torch,
                )
        finally:
            self._written.set()

    def _unwatched(self) -> Any:
        """A scope in which nothing of ours looks at the operators that are called."""
        return self._torch._C.DisableTorchFunction()


def _stack(frame: "FrameType | None") -> str:
    """The innermost lines of a stack, as Python prints them, without ours."""
    lines = [line for line in traceback.extract_stack(frame) if not line.filename.startswith(_HERE)]
    return "".join(traceback.format_list(lines[-_STACK_LINES:]))
