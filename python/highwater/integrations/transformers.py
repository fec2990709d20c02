"""Records a Hugging Face ``Trainer``.

>>> from highwater.integrations.transformers import HighwaterCallback
>>> trainer = Trainer(..., callbacks=[HighwaterCallback("run.pickle")])
"""

from __future__ import annotations

from typing import Any

from transformers import TrainerCallback

from highwater._record import step
from highwater.integrations._recording import RecordingCallback


class HighwaterCallback(RecordingCallback, TrainerCallback):  # type: ignore[misc]
    """Records from the beginning of the training to its end; each of its steps is an iteration.

    If there are several ranks, each writes its own file. ``names`` gives tensors the model's names.
    """

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """The training begins."""
        self._begin()
        self._name(kwargs.get("model"), kwargs.get("optimizer"))

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """The optimizer has stepped."""
        step()

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """The training ends."""
        self._end()
