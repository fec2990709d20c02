"""Records a PyTorch Lightning ``Trainer``.

>>> from highwater.integrations.lightning import HighwaterCallback
>>> trainer = Trainer(..., callbacks=[HighwaterCallback("run.pickle")])
"""

from __future__ import annotations

import os
from typing import Any, Literal

try:
    from lightning.pytorch.callbacks import Callback
except ImportError:
    from pytorch_lightning.callbacks import Callback

from highwater._names import NamedTensors, name_tensors
from highwater._process import ProcessRecorder
from highwater._record import MAX_ENTRIES, step


class HighwaterCallback(Callback):  # type: ignore[misc]
    """Records from the beginning of the fit to its end; each training batch is an iteration.

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
        super().__init__()
        self._recorder = ProcessRecorder(os.fspath(path), max_entries=max_entries, stacks=stacks)
        self._wants_names = names
        self._names: NamedTensors | None = None

    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
        """The fit begins."""
        self._recorder.start()

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """The optimizers are there."""
        if self._wants_names:
            optimizers = trainer.optimizers
            self._names = name_tensors(pl_module, optimizers[0] if len(optimizers) == 1 else None)

    def on_train_batch_end(self, trainer: Any, pl_module: Any, *args: Any, **kwargs: Any) -> None:
        """A batch is done."""
        step()

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """The fit fails; the callbacks for its end are not called then."""
        self._end(exception)

    def teardown(self, trainer: Any, pl_module: Any, stage: str) -> None:
        """The fit ends."""
        self._end(None)

    def _end(self, error: BaseException | None) -> None:
        self._recorder._stop(error)
        if self._names is not None:
            self._names.remove()
            self._names = None
