"""The callbacks, with trainers that are made up: called as the trainers call them."""

from __future__ import annotations

import importlib
import sys
import types
from pathlib import Path
from typing import Any

import highwater
import pytest
from fake_torch import FakeTorch
from test_names import Module


def _callback(monkeypatch: pytest.MonkeyPatch, library: str, base: str, module: str) -> Any:
    """The callback, over an empty base class of the library."""
    names = library.split(".")
    for end in range(1, len(names) + 1):
        monkeypatch.setitem(sys.modules, ".".join(names[:end]), types.ModuleType(names[end - 1]))
    setattr(sys.modules[library], base, type(base, (), {}))
    monkeypatch.delitem(sys.modules, module, raising=False)
    return importlib.import_module(module).HighwaterCallback


def test_a_hugging_face_trainer_is_recorded(
    torch: FakeTorch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = _callback(monkeypatch, "transformers", "TrainerCallback", "highwater.integrations.transformers")
    model, path = Module({}, {}), tmp_path / "run.pickle"
    callback = kind(path)
    callback.on_train_begin(None, None, None, model=model, optimizer=None)
    assert torch.enabled
    callback.on_step_end(None, None, None)
    callback.on_step_end(None, None, None)
    callback.on_train_end(None, None, None)
    assert torch.annotations == ["highwater.step"] * 2
    assert not torch.enabled and not model.before
    assert highwater.load(path).devices == [0]


@pytest.mark.parametrize("library", ["lightning.pytorch.callbacks", "pytorch_lightning.callbacks"])
@pytest.mark.parametrize("fails", [False, True])
def test_a_lightning_trainer_is_recorded(
    torch: FakeTorch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, library: str, fails: bool
) -> None:
    for name in ("lightning", "lightning.pytorch", "lightning.pytorch.callbacks"):
        monkeypatch.setitem(sys.modules, name, None)
    kind = _callback(monkeypatch, library, "Callback", "highwater.integrations.lightning")
    monkeypatch.setenv("RANK", "1")
    model, trainer = Module({}, {}), types.SimpleNamespace(optimizers=[])
    callback = kind(tmp_path / "run.pickle")
    callback.on_fit_start(trainer, model)
    callback.on_train_start(trainer, model)
    callback.on_train_batch_end(trainer, model, None, None, 0)
    if fails:
        callback.on_exception(trainer, model, ValueError("mine"))
    callback.teardown(trainer, model, "fit")
    assert torch.annotations == ["highwater.step"]
    assert not torch.enabled
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run.rank1.manifest.json", "run.rank1.pickle"]
