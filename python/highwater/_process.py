"""The recording of a whole process, which may be one of many."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
from pathlib import Path
from typing import Any, Literal

from highwater import _job, _torch
from highwater._asking import Meeting
from highwater._record import Recorder

DEFAULT = "highwater.pickle"


class ProcessRecorder(Recorder):
    """A recorder whose file's name is known when the process has its rank."""

    def __init__(
        self,
        target: str,
        *,
        max_entries: int,
        stacks: Literal["python", "all"] | None,
        driver: bool | None = None,
    ) -> None:
        super().__init__(target, max_entries=max_entries, stacks=stacks, driver=driver)
        self._is_directory = target.endswith(("/", os.sep)) or os.path.isdir(target)
        self._meeting: Meeting | None = None
        self._started_us: int | None = None

    def target(self) -> Path:
        """The file that will be written."""
        place = _job.place()
        host = place.host if place.is_on_several_hosts else None
        return file_for(self.path, self._is_directory, _torch.rank(), host)

    def _begin(self) -> None:
        super()._begin()
        rank = _torch.rank()
        if not self._begun or rank is None or multiprocessing.parent_process() is not None:
            return
        self._started_us = _torch.now_us()
        place = _job.place()
        # A rank that writes no recording is known by its manifest. Where neither can be written, the recording says so.
        with contextlib.suppress(OSError):
            _job.write_beside(self.target(), self._manifest())
            self._meeting = Meeting(self.target().parent, place.run, rank, place.world_size)
            self._meeting.begin(lambda: self._write(self.target()))

    def _manifest(self) -> dict[str, Any]:
        return _job.manifest(self.target(), self._started_us)

    def _add_to(self, snapshot: Any) -> None:
        super()._add_to(snapshot)
        if self._started_us is not None and isinstance(snapshot, dict):
            snapshot[_job.KEY] = self._manifest()

    def _failed(self) -> None:
        # The others are asked first: what this one writes takes a while.
        if self._meeting is not None and not self._is_foreign():
            self._meeting.ask()
        super()._failed()

    def _finished(self, error: BaseException | None) -> Path | None:
        meeting = self._meeting
        if meeting is None or self._is_foreign():
            return super()._finished(error)
        if _torch.is_out_of_memory(error):
            meeting.wait()
        meeting.end()
        written = super()._finished(error)
        with contextlib.suppress(OSError):
            _job.write_beside(self.target(), self._manifest())
        return written


def file_for(target: Path, is_directory: bool, rank: int | None, host: str | None = None) -> Path:
    """The file of this process.

    Each of several ranks writes ``rank0.pickle``, …; on several hosts ``rank0.node7.pickle``. For a child of :mod:`multiprocessing`
    without a rank, the name contains its process id.
    """
    is_child = multiprocessing.parent_process() is not None
    folder, name = (target, Path(DEFAULT)) if is_directory else (target.parent, Path(target.name))
    if rank is not None:
        own = f"rank{rank}" if name.name == DEFAULT else f"{name.stem}.rank{rank}"
        own = own if host is None else f"{own}.{host}"
        return folder / f"{own}{name.suffix or '.pickle'}"
    if is_child:
        return folder / f"{name.stem}.pid{os.getpid()}{name.suffix or '.pickle'}"
    return folder / name
