"""Records a PyTorch Lightning ``Trainer``.

>>> from highwater.integrations.lightning import HighwaterCallback
>>> trainer = Trainer(..., callbacks=[HighwaterCallback("run.pickle")])
"""

from __future__ import annotations

from typing import Any

try:
    from lightning.pytorch.callbacks import Callback
except ImportError:
    from pytorch_lightning.callbacks import Callback

from highwater._record import step
from highwater.integrations._recording import RecordingCallback


class HighwaterCallback(RecordingCallback, Callback):  # type: ignore[misc]
    """Records from the beginning of the fit to its end; each training batch is an iteration.

    If there are several ranks, each writes its own file. ``names`` gives tensors the model's names.
    """

    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
        """The fit begins."""
        self._begin()

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """The optimizers are there."""
        optimizers = trainer.optimizers
        self._name(pl_module, optimizers[0] if len(optimizers) == 1 else None)

    def on_train_batch_end(self, trainer: Any, pl_module: Any, *args: Any, **kwargs: Any) -> None:
        """A batch is done."""
        step()

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """The fit fails; the callbacks for its end are not called then."""
        self._end(exception)

    def teardown(self, trainer: Any, pl_module: Any, stage: str) -> None:
        """The fit ends."""
        self._end()
