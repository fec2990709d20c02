"""Names of tensors, with a model that is made up."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import highwater
import pytest
from conftest import recording, unpickled
from fake_torch import FakeTorch


class Tensor:
    """A tensor that owns a block of the recording."""

    is_cuda = True
    device = types.SimpleNamespace(index=0)

    def __init__(self, address: int) -> None:
        self.address = address
        self.grad: Tensor | None = None

    def untyped_storage(self) -> Any:
        return types.SimpleNamespace(data_ptr=lambda: self.address)


class Module:
    """A module with hooks."""

    def __init__(self, children: dict[str, Module], parameters: dict[str, Tensor]) -> None:
        self.children = children
        self.parameters = parameters
        self.before: list[Callable[..., None]] = []
        self.after: list[Callable[..., None]] = []

    def named_parameters(self) -> Iterator[tuple[str, Tensor]]:
        yield from self.parameters.items()
        for name, child in self.children.items():
            for dotted, parameter in child.named_parameters():
                yield f"{name}.{dotted}", parameter

    def named_buffers(self) -> Iterator[tuple[str, Tensor]]:
        return iter(())

    def named_modules(self) -> Iterator[tuple[str, Module]]:
        yield "", self
        yield from self.children.items()

    def register_forward_pre_hook(self, hook: Callable[..., None]) -> Any:
        self.before.append(hook)
        return types.SimpleNamespace(remove=lambda: self.before.remove(hook))

    def register_forward_hook(self, hook: Callable[..., None], *, always_call: bool) -> Any:
        assert always_call
        self.after.append(hook)
        return types.SimpleNamespace(remove=lambda: self.after.remove(hook))

    def __call__(self) -> None:
        for hook in self.before:
            hook(self, ())
        for child in self.children.values():
            child()
        for hook in self.after:
            hook(self, (), None)


@pytest.fixture
def metadata(torch: FakeTorch) -> list[str]:
    """What is put on allocations, in order."""
    said: list[str] = []
    torch._C._cuda_setMemoryMetadata = said.append
    torch.cuda.memory._set_memory_metadata = said.append
    return said


def test_tensors_are_called_by_their_names(torch: FakeTorch, metadata: list[str], tmp_path: Path) -> None:
    live = highwater.load(recording("linear_forward")).live(at="end").to_dicts()
    addresses = [row["address"] for row in live if row["alloc_entry"] is not None][:3]
    weight, state = Tensor(addresses[0]), Tensor(addresses[1])
    weight.grad = Tensor(addresses[2])
    model = Module({"up_proj": Module({}, {"weight": weight})}, {})
    optimizer = types.SimpleNamespace(state={weight: {"exp_avg": state, "step": 3}})
    torch.snapshot_dict = unpickled("linear_forward")
    with highwater.record(tmp_path / "run.pickle"), highwater.name_tensors(model, optimizer):
        highwater.record(tmp_path / "middle.pickle").start().stop()
    rows = highwater.load(tmp_path / "middle.pickle").live(at="end").to_dicts()
    named = {row["address"]: (row["name"], row["category"]) for row in rows if row["name"]}
    assert named == {
        addresses[0]: ("model.up_proj.weight", "parameter"),
        addresses[1]: ("model.up_proj.weight.exp_avg", "optimizer_state"),
        addresses[2]: ("model.up_proj.weight.grad", "gradient"),
    }


def test_modules_label_what_they_allocate(metadata: list[str]) -> None:
    model = Module({"up": Module({}, {}), "down": Module({}, {})}, {})
    names = highwater.name_tensors(model, prefix="net")
    model()
    assert metadata == ["net", "net.up", "net", "net.down", "net", ""]
    names.remove()
    model()
    assert len(metadata) == 6 and not model.before and not model.after


def test_an_older_torch_says_what_has_no_name(torch: FakeTorch, capsys: pytest.CaptureFixture[str]) -> None:
    with highwater.name_tensors(Module({}, {})):
        pass
    assert "activations have no names" in capsys.readouterr().err


def test_without_cuda_nothing_happens(torch: FakeTorch, capsys: pytest.CaptureFixture[str]) -> None:
    torch.devices = 0
    model = Module({}, {})
    with highwater.name_tensors(model):
        model()
    assert capsys.readouterr().err == ""


def test_a_model_of_torch_is_named() -> None:
    torch = pytest.importorskip("torch")
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4))
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
    with highwater.name_tensors(model, optimizer) as names:
        model(torch.ones(2, 4))
        found = {name: category for name, category, _ in names.tensors()}
    assert found["model.0.weight"] == "parameter"
    assert found["model.0.weight.grad"] == "gradient"
    assert found["model.0.weight.exp_avg"] == "optimizer_state"
    assert found["model.1.running_mean"] == "parameter"
