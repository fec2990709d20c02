"""What the callbacks of all trainers have in common."""

from __future__ import annotations

import os
from typing import Any, Literal

from highwater._names import NamedTensors, name_tensors
from highwater._process import ProcessRecorder
from highwater._record import MAX_ENTRIES


class RecordingCallback:
    """Records between two calls of a trainer; its own class of callbacks comes after this one."""

    def __init__(
        self,
        path: str | os.PathLike[str] = "highwater.pickle",
        *,
        max_entries: int = MAX_ENTRIES,
        stacks: Literal["python", "all"] | None = "python",
        names: bool = True,
    ) -> None:
        super().__init__()
        self._recorder = ProcessRecorder(os.fspath(path), max_entries=max_entries, stacks=stacks)
        self._wants_names = names
        self._names: NamedTensors | None = None

    def _begin(self) -> None:
        self._recorder.start()

    def _name(self, model: Any, optimizer: Any) -> None:
        """The model is there, and the optimizer, if there is exactly one."""
        if self._wants_names and model is not None:
            self._names = name_tensors(model, optimizer)

    def _end(self, error: BaseException | None = None) -> None:
        self._recorder._stop(error)
        if self._names is not None:
            self._names.remove()
            self._names = None
