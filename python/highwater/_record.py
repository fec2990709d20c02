"""Recording: PyTorch's own history, kept within bounds and written safely.

Problems are reported once on standard error. The recorded program continues.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import threading
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, ParamSpec, TypeVar

from highwater import _answer, _driver, _names, _oom, _torch
from highwater._notice import notice
from highwater._write import write_atomically, write_snapshot

P = ParamSpec("P")
T = TypeVar("T")

MAX_ENTRIES = 300_000
"""About 30 MB of file and 5 s to write it: `docs/python.md` has the measurement."""

MAX_OOM_DUMPS = 3
"""A program that looks for the largest batch fails often, and each dump takes a while."""

STEP = "highwater.step"
"""The annotation that ends an iteration."""

_lock = threading.RLock()
_active: list[Recorder] = []


class Recorder:
    """A recording: a context manager, a decorator, or an object with :meth:`start` and :meth:`stop`.

    Recorders may be nested. PyTorch keeps only one history, so an inner recorder uses the outer one's, and its file includes that history.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        max_entries: int = MAX_ENTRIES,
        stacks: Literal["python", "all"] | None = "python",
        frees: bool = False,
        on_oom: bool = True,
        driver: bool | None = None,
    ) -> None:
        if max_entries < 1:
            raise ValueError(f"`max_entries` is {max_entries}, expected 1 or more")
        if stacks not in ("python", "all", None):
            raise ValueError(f'`stacks` is {stacks!r}, expected "python", "all" or None')
        self.path = Path(path)
        """The file that :meth:`stop` writes."""
        self.max_entries = max_entries
        self.stacks = stacks
        self.frees = frees
        self.on_oom = on_oom
        self.driver = driver
        self._has_driver = False
        self._pid: int | None = None
        self._begun = False
        self._owns_history = False
        self._totals: list[dict[str, Any]] | None = None
        self._oom_dumps = 0
        self._oom_file: Path | None = None

    # Start and stop.

    def start(self) -> Recorder:
        """Starts recording: at once, or as soon as the program uses CUDA."""
        with _lock:
            if self._is_on():
                raise RuntimeError("this recorder is already recording: make another one, or call `stop()` first")
            self._pid = os.getpid()
            self._begun = self._owns_history = False
            self._totals = self._oom_file = None
            self._oom_dumps = 0
            _active.append(self)
        try:
            _torch.check_cuda()
            # Before CUDA: the context is its first memory.
            self._has_driver = _driver.is_wanted(self.driver) and _driver.begin()
            _torch.when_initialized(self._begin)
        except _torch.Unavailable as why:
            notice(f"{why}: nothing is recorded")
        except Exception as error:
            notice(f"recording cannot start, the program continues without it: {error}")
        return self

    def stop(self) -> Path | None:
        """Ends the recording and writes the file; returns its path, or ``None`` if there is nothing to write."""
        return self._stop(None)

    def dump(self, path: str | os.PathLike[str] | None = None) -> Path | None:
        """Writes the recording so far, and continues to record."""
        if not self._begun or self._is_foreign():
            return None
        return self._write(Path(path) if path is not None else self.target())

    def target(self) -> Path:
        """The file that will be written."""
        return self.path

    def _begin(self) -> None:
        """CUDA is there."""
        with _lock:
            if self not in _active or self._is_foreign():
                return
            try:
                self._begin_history()
            except Exception as error:
                notice(f"recording cannot start, the program continues without it: {error}")
            if self._begun:
                _answer.begin()

    def _begin_history(self) -> None:
        if _torch.is_asynchronous():
            notice(
                "PyTorch keeps no history of `backend:cudaMallocAsync`: only totals are recorded, at each "
                "`highwater.step()`. For a full recording run with `PYTORCH_ALLOC_CONF=backend:native`"
            )
            self._totals = []
            self._begun = True
            self.mark("start")
            return
        if not _torch.is_recording():
            self._owns_history = True
            for missing in _torch.start_history(self.max_entries, self.stacks, self.frees):
                notice(f"this torch does not record {missing}")
        self._begun = True
        if self.on_oom:
            _oom.observe(self._failed)

    def _stop(self, error: BaseException | None) -> Path | None:
        with _lock:
            if self not in _active:
                return None
            _active.remove(self)
        if self._is_foreign():
            return None
        try:
            return self._stop_history(error)
        finally:
            if self._has_driver:
                self._has_driver = False
                _driver.end()

    def _stop_history(self, error: BaseException | None) -> Path | None:
        if not self._begun:
            return None
        _oom.forget(self._failed)
        _answer.end()
        try:
            written = self._finished(error)
        finally:
            self._begun = False
            self._end_history()
        _oom.explain_in_notebook(error)
        return written

    def _finished(self, error: BaseException | None) -> Path | None:
        """Writes the last file, or makes that of the failure the last one."""
        if self._totals is not None:
            self.mark("end")
            return self._write_totals()
        failure = self._oom_file
        if failure is not None and _torch.is_out_of_memory(error):
            # The state at the failure, not that after everything was freed.
            target = failure.with_name(failure.name.replace(".oom", "", 1))
            with contextlib.suppress(OSError):
                os.replace(failure, target)
                notice(f"the recording ends with that error: {failure.name} is {target.name} now")
                _oom.dumped(target)
                return target
            return failure
        return self._write(self.target())

    def _end_history(self) -> None:
        """Hands PyTorch's history on to a recorder that still needs it, or ends it."""
        if not self._owns_history:
            return
        self._owns_history = False
        heirs = [other for other in _active if other._begun and other._totals is None]
        if heirs:
            heirs[0]._owns_history = True
            return
        try:
            _torch.stop_history()
        except Exception as error:
            notice(f"recording cannot be ended: {error}")

    def _is_on(self) -> bool:
        return self in _active and not self._is_foreign()

    def _is_foreign(self) -> bool:
        """Whether this is a forked child of the process that records."""
        return self._pid != os.getpid()

    # Files.

    def _failed(self) -> None:
        """A request failed."""
        if self._is_foreign():
            return
        self._oom_dumps += 1
        if self._oom_dumps > MAX_OOM_DUMPS:
            notice(f"memory ran out more than {MAX_OOM_DUMPS} times: later failures are not written")
            return
        path = self.target()
        path = path.with_name(f"{path.stem}.oom{path.suffix}")
        written = self._write(path)
        if written is not None:
            self._oom_file = written
            _oom.dumped(written)

    def _write(self, path: Path) -> Path | None:
        """Writes a snapshot, or says why not."""
        try:
            snapshot = _torch.snapshot()
            self._add_to(snapshot)
            written = write_snapshot(path, snapshot)
        except MemoryError:
            return self._write_bare(path)
        except Exception as error:
            notice(f"`{path}` cannot be written, the program continues: {_reason(error)}")
            return None
        notice(f"wrote {written}")
        return written

    def _add_to(self, snapshot: Any) -> None:
        """Adds what PyTorch does not know of."""
        _put_names(snapshot)
        if self._has_driver:
            _driver.put_into(snapshot)

    def _write_bare(self, path: Path) -> Path | None:
        """The memory allocated now, for a host without memory for the history."""
        try:
            written = write_snapshot(path, _torch.bare_snapshot())
        except Exception as error:
            notice(f"`{path}` cannot be written, the program continues: {_reason(error)}")
            return None
        notice(f"the host has too little memory for the history: `{written}` has only the memory allocated at the end")
        return written

    def _write_totals(self) -> Path | None:
        path = self.target()
        path = path.with_name(f"{path.stem}.totals.json")
        document = {"format": "highwater-totals", "version": 1, "marks": self._totals}
        try:
            write_atomically(path, lambda file: _put(file, json.dumps(document).encode()))
        except OSError as error:
            notice(f"`{path}` cannot be written, the program continues: {_reason(error)}")
            return None
        notice(f"wrote {path}")
        return path

    # Marks.

    def mark(self, name: str) -> None:
        """Records the totals, where nothing else can be recorded."""
        if self._totals is not None:
            self._totals.append({"name": name, "time_us": _torch.now_us(), "devices": _torch.totals()})

    # As a context manager and as a decorator.

    def __enter__(self) -> Recorder:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stop(error)

    def __call__(self, function: Callable[P, T]) -> Callable[P, T]:
        @functools.wraps(function)
        def recorded(*args: P.args, **kwargs: P.kwargs) -> T:
            # One for each call: a function may call itself, and be called from several threads.
            with self._again():
                return function(*args, **kwargs)

        return recorded

    def _again(self) -> Recorder:
        return Recorder(
            self.path,
            max_entries=self.max_entries,
            stacks=self.stacks,
            frees=self.frees,
            on_oom=self.on_oom,
            driver=self.driver,
        )

    def __repr__(self) -> str:
        state = "recording" if self._begun else "waiting for CUDA" if self._is_on() else "idle"
        return f"<highwater.Recorder {self.path}: {state}>"


def record(
    path: str | os.PathLike[str] = "highwater.pickle",
    *,
    max_entries: int = MAX_ENTRIES,
    stacks: Literal["python", "all"] | None = "python",
    frees: bool = False,
    on_oom: bool = True,
    driver: bool | None = None,
) -> Recorder:
    """Records the allocations of a block, of a function, or between ``start()`` and ``stop()``.

    >>> with highwater.record("run.pickle"):
    ...     train()

    ``max_entries``
        the number of entries to keep; the newest stay.
    ``stacks``
        ``"python"``, ``"all"`` for C++ frames as well, which is slow, or ``None``.
    ``frees``
        also capture stacks at frees. Use it only in programs without gradient checkpointing: with torch 2.11, an exception that
        crosses C++, as checkpointing raises, becomes ``SystemError: … returned NULL without setting an exception``.
    ``on_oom``
        also write ``run.oom.pickle`` at the moment when memory runs out, and explain the error under its traceback. If that
        error ends the block, its file becomes ``run.pickle``.
    ``driver``
        also record every library's allocations from the driver, by CUPTI. Start recording before CUDA is used. ``None`` reads
        ``HIGHWATER_DRIVER``.
    """
    return Recorder(path, max_entries=max_entries, stacks=stacks, frees=frees, on_oom=on_oom, driver=driver)


def step() -> None:
    """Ends an iteration: call it once in each pass of a loop. Without a recording it costs next to nothing."""
    recorders = [recorder for recorder in _active if recorder._begun]
    if not recorders:
        return
    for recorder in recorders:
        recorder.mark("step")
    _driver.mark("step")
    with phase(STEP):
        pass


@contextlib.contextmanager
def _noted(name: str) -> Any:
    with _torch.annotation(name):
        yield


def phase(name: str) -> contextlib.AbstractContextManager[Any]:
    """Names a part of an iteration in the recording, as ``torch.profiler.record_function`` does."""
    return _noted(name) if _active else contextlib.nullcontext()


def _put_names(snapshot: Any) -> None:
    """Names the tensors that it can: a recording without names is better than none."""
    try:
        _names.put_names(snapshot)
    except Exception as error:
        notice(f"tensors cannot be named: {error}")


def _reason(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) or type(error).__name__


def _put(file: Any, data: bytes) -> None:
    file.write(data)


def _after_fork() -> None:
    """A child cannot use the parent's CUDA: the parent's recording is not the child's."""
    global _lock
    _lock = threading.RLock()
    _active.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
