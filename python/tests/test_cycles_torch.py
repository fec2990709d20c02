"""The cycle detector on torch's own tensors, and beside torch's own detector."""

from __future__ import annotations

import gc
import sys
from typing import Any

import pytest

from highwater import cycles

torch = pytest.importorskip("torch")


class Node:
    """As in the program that was recorded on a GPU (`testdata/recordings/reference_cycles`)."""

    def __init__(self, t: Any) -> None:
        self.t = t
        self.me = self


def leaky(count: int) -> None:
    t = torch.empty(count)
    node: Any = Node(t)

    def hook() -> Any:
        return hook, node

    # Torch's detector does not see through the attributes of an object whose dict was never asked for.
    vars(node)["hook"] = hook


def hooks() -> None:
    module = torch.nn.Linear(4, 4)
    module.register_forward_hook(lambda *_: module)


def tensor_hook() -> None:
    tensor = torch.ones(4, requires_grad=True)
    tensor.register_hook(lambda gradient: tensor * gradient)


def error_kept() -> None:
    tensor = torch.ones(8)
    try:
        tensor @ torch.ones(9)
    except RuntimeError as error:
        kept = error
        assert kept is error


def plain() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())
    model(torch.ones(2, 4)).sum().backward()


def of_torch(programs: list[Any], monkeypatch: pytest.MonkeyPatch) -> list[list[Any]]:
    """What torch's own detector keeps of the garbage, for each collection."""
    viz = pytest.importorskip("torch.utils.viz._cycles")
    monkeypatch.setattr(viz, "is_cuda_tensor", lambda obj: isinstance(obj, torch.Tensor))
    graphs: list[list[Any]] = []
    gc.collect()
    remove = viz.observe_garbage(lambda garbage: graphs.append(viz.create_graph(garbage, context=lambda obj: None)))
    try:
        for program in programs:
            program()
        gc.collect()
        # Torch looks at the next call.
        len([])
    finally:
        remove()
        sys.setprofile(None)
        gc.set_debug(0)
        gc.garbage.clear()
        gc.collect()
    return graphs


@pytest.mark.parametrize(
    "programs",
    [[lambda: leaky(1 << 18)] * 3, [hooks], [tensor_hook], [error_kept], [hooks, error_kept, lambda: leaky(10)], [plain]],
    ids=["reference_cycles", "hooks", "tensor_hook", "error_kept", "several", "none"],
)
def test_it_agrees_with_torch(programs: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    gc.collect()
    gc.disable()
    try:
        for program in programs:
            program()
        ours = cycles.find(device="cpu")
        theirs = of_torch(programs, monkeypatch)
    finally:
        gc.enable()
    roots = [node for graph in theirs for node in graph if node.root]
    assert ours.tensors == len(roots)
    kept = [tensor for cycle in ours.cycles for tensor in cycle.tensors]
    shapes = sorted(str(torch.Size(tensor.shape)) for tensor in kept)
    assert shapes == sorted(node.label.partition("(")[2].removesuffix(")") for node in roots)
    # Whatever is on our ways is among what torch says leads to a tensor.
    names = {node.label for graph in theirs for node in graph}
    for tensor in kept:
        for step in (*tensor.path, *tensor.cycle):
            if step.type.endswith("Node"):
                assert any(label.startswith("object\n") and label.endswith(".Node") for label in names)
            if step.type == "builtins.function":
                assert step.name is not None and f"function\n{step.name.rpartition('.')[2]}" in names


def test_the_recorded_program_is_explained() -> None:
    with pytest.raises(cycles.CyclesFound) as raised, cycles.check(device="cpu"):
        for _ in range(3):
            leaky(1 << 18)
    [report] = raised.value.reports
    assert (report.tensors, report.size_bytes) == (3, 3 << 20)
    assert {tensor.attribute_path for cycle in report.cycles for tensor in cycle.tensors} == {"Node.t"}
    assert "Node.t is a Tensor float32 262144 on cpu, 1.00 MiB" in report.text


def test_parameters_have_their_way() -> None:
    gc.collect()
    hooks()
    [cycle] = cycles.find(device="cpu").cycles
    assert [tensor.attribute_path for tensor in cycle.tensors] == ["Linear._parameters['weight']", "Linear._parameters['bias']"]


def test_views_share_a_storage() -> None:
    gc.collect()
    base = torch.zeros(1000)
    node = Node([base[:10], base[10:]])
    del base, node
    report = cycles.find(device="cpu")
    assert (report.tensors, report.size_bytes) == (2, 4000)


def test_a_tensor_without_a_storage_is_found() -> None:
    gc.collect()
    Node(torch.eye(3).to_sparse())
    report = cycles.find(device="cpu")
    assert (report.tensors, report.size_bytes) == (1, 0)


def test_a_subclass_is_not_asked() -> None:
    asked = []

    class Asking(torch.Tensor):  # type: ignore[misc, name-defined]
        @classmethod
        def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            asked.append(function)
            return super().__torch_function__(function, types, args, kwargs or {})

    tensor = torch.ones(4).as_subclass(Asking)
    node = Node(tensor)
    del tensor, node
    asked.clear()
    assert cycles.find(device="cpu").tensors == 1
    assert asked == []


def test_parameters_can_be_swapped_while_a_watch_is_on() -> None:
    # `torch.utils.swap_tensors` refuses tensors that have weak references.
    with cycles.watch(device="cpu"):
        one, two = torch.ones(2), torch.zeros(2)
        gc.collect()
        torch.utils.swap_tensors(one, two)
    assert one.sum() == 0
