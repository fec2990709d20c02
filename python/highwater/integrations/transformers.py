"""Records a Hugging Face ``Trainer``.

>>> from highwater.integrations.transformers import HighwaterCallback
>>> trainer = Trainer(..., callbacks=[HighwaterCallback("run.pickle")])
"""

from __future__ import annotations

import os
from typing import Any, Literal

from transformers import TrainerCallback

from highwater._names import NamedTensors, name_tensors
from highwater._process import ProcessRecorder
from highwater._record import MAX_ENTRIES, step


class HighwaterCallback(TrainerCallback):  # type: ignore[misc]
    """Records from the beginning of the training to its end; each of its steps is an iteration.

    Of several ranks, each writes a file of its own. ``names`` calls tensors by the model's names.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] = "highwater.pickle",
        *,
        max_entries: int = MAX_ENTRIES,
        stacks: Literal["python", "all"] | None = "python",
        names: bool = True,
    ) -> None:
        self._recorder = ProcessRecorder(os.fspath(path), max_entries=max_entries, stacks=stacks)
        self._wants_names = names
        self._names: NamedTensors | None = None

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """The training begins."""
        self._recorder.start()
        if self._wants_names and kwargs.get("model") is not None:
            self._names = name_tensors(kwargs["model"], kwargs.get("optimizer"))

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """The optimizer has stepped."""
        step()

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """The training ends."""
        self._recorder.stop()
        if self._names is not None:
            self._names.remove()
