"""The recording of a whole process, which may be one of many."""

from __future__ import annotations

import multiprocessing
import os
from pathlib import Path
from typing import Literal

from highwater import _torch
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
    ) -> None:
        super().__init__(target, max_entries=max_entries, stacks=stacks)
        self._is_directory = target.endswith(("/", os.sep)) or os.path.isdir(target)

    def target(self) -> Path:
        """The file that will be written."""
        return file_for(self.path, self._is_directory, _torch.rank())


def file_for(target: Path, is_directory: bool, rank: int | None) -> Path:
    """The file of this process.

    Each of several ranks writes ``rank0.pickle``, …; for a child of :mod:`multiprocessing` without a rank, the name contains its
    process id.
    """
    is_child = multiprocessing.parent_process() is not None
    folder, name = (target, Path(DEFAULT)) if is_directory else (target.parent, Path(target.name))
    if rank is not None:
        own = f"rank{rank}" if name.name == DEFAULT else f"{name.stem}.rank{rank}"
        return folder / f"{own}{name.suffix or '.pickle'}"
    if is_child:
        return folder / f"{name.stem}.pid{os.getpid()}{name.suffix or '.pickle'}"
    return folder / name
