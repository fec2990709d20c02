"""Reference cycles that hold tensors: what is found in a set of them, and how it is named."""

from __future__ import annotations

import gc
import sys
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from cyclic import SET, closed, cycle_without_a_tensor, exception_let_go, finalizer, find, itself, no_cycle, plain, tensors, weak_cycle
from fake_tensors import Box, FakeStorage, FakeTensor

from highwater import cycles
from highwater._collector import collector
from highwater.cycles import Report

pytestmark = pytest.mark.usefixtures("collector_as_it_was")

@pytest.mark.parametrize(("make", "path", "cycle"), SET, ids=[make.__name__ for make, _, _ in SET])
def test_a_cycle_is_found_and_named(make: Callable[[], None], path: str, cycle: list[str]) -> None:
    make()
    report = find()
    assert report.tensors == 1 and report.size_bytes == 1 << 20 and not report.lost
    [found] = report.cycles
    [kept] = found.tensors
    assert plain(kept.attribute_path) == path
    assert [plain(step.text) for step in kept.cycle] == cycle
    assert (kept.type, kept.dtype, kept.device, kept.shape) == ("fake_tensors.FakeTensor", "torch.uint8", "cuda:0", (1 << 20,))
    assert tensors() == 0


@pytest.mark.parametrize("ahead", range(0, 40, 3))
def test_a_thousand_one_after_the_other(ahead: int) -> None:
    # Wherever it is that the collector runs.
    kept = [[] for _ in range(ahead)]  # type: ignore[var-annotated]
    with cycles.watch(tensor_type=FakeTensor, log=False) as watch:
        for _ in range(1000):
            itself()
        gc.collect()
    assert watch.found == 1000


@pytest.mark.usefixtures("collector_off")
def test_a_thousand_at_once() -> None:
    for _ in range(1000):
        itself()
    report = find()
    assert (report.tensors, len(report.cycles), report.size_bytes) == (1000, 1000, 1000 << 20)
    assert {cycle.tensors[0].attribute_path for cycle in report.cycles} == {"Box.t"}
    assert "and 999 more like it, 1000.00 MiB in all" in report.text


def test_a_thousand_on_one_cycle() -> None:
    box = Box(all=[FakeTensor(1000 + at) for at in range(1000)])
    box.me = box
    del box
    [cycle] = find().cycles
    assert [kept.size_bytes for kept in cycle.tensors] == list(range(1999, 999, -1))
    assert cycle.tensors[0].attribute_path == "Box.all[999]"
    assert "and 997 more" in cycle.text


@pytest.mark.usefixtures("collector_off")
def test_the_whole_set_at_once() -> None:
    for make, _, _ in SET:
        make()
    report = find()
    paths = sorted(kept_path(report))
    assert paths == sorted(path for _, path, _ in SET)


def kept_path(report: Report) -> list[str]:
    return [plain(kept.attribute_path) for cycle in report.cycles for kept in cycle.tensors]


@pytest.mark.parametrize("generation", [0, 1])
def test_a_tensor_older_than_its_cycle_is_found(generation: int) -> None:
    reports: list[Report] = []
    held = {"list": [FakeTensor(1000), FakeTensor(1001)]}
    in_use = [FakeTensor(1002)]
    gc.collect(1)
    with cycles.watch(reports.append, tensor_type=FakeTensor, log=False) as watch:
        box = Box(held=held, in_use=in_use)
        box.me = box
        del box, held
        gc.collect(generation)
        assert tensors() == 1
    assert watch.found == 2 and len(in_use) == 1
    [cycle] = reports[0].cycles
    assert [step.text for step in cycle.steps] == ["Box.me"]
    assert sorted(kept.attribute_path for kept in cycle.tensors) == ["Box.held['list'][0]", "Box.held['list'][1]"]


def test_a_young_tensor_that_an_old_object_keeps_is_found() -> None:
    held: list[Any] = []
    gc.collect(1)
    held.append(FakeTensor())
    with cycles.watch(tensor_type=FakeTensor, log=False) as watch:
        box = Box(held=held)
        box.me = box
        del box, held
        gc.collect(0)
        assert tensors() == 0
    assert watch.found == 1


def test_a_storage_counts_once() -> None:
    shared = FakeStorage(5000)
    box = Box(one=FakeTensor(storage=shared), two=FakeTensor(storage=shared), other=FakeTensor(300))
    box.me = box
    itself()
    del box
    report = find()
    assert report.size_bytes == 5300 + (1 << 20)
    assert [cycle.size_bytes for cycle in report.cycles] == [1 << 20, 5300]
    assert len({kept.storage for kept in report.cycles[1].tensors}) == 2


def test_the_smallest_cycle_is_named_and_that_there_are_others() -> None:
    box = Box(t=FakeTensor())
    box.long = Box(next=Box(back=box))
    box.me = box
    del box
    [cycle] = find().cycles
    assert [step.text for step in cycle.steps] == ["Box.me"]
    assert not cycle.tensors[0].is_only_cycle and "further cycles" in cycle.text


def test_a_cycle_that_leads_to_another_is_a_further_one() -> None:
    inner = Box(t=FakeTensor())
    inner.me = inner
    outer = Box(inner=inner)
    outer.me = outer
    del inner, outer
    [cycle] = find().cycles
    assert not cycle.tensors[0].is_only_cycle


@pytest.mark.parametrize("make", [no_cycle, weak_cycle, exception_let_go, cycle_without_a_tensor])
def test_what_reference_counting_frees_is_not_reported(make: Callable[[], None]) -> None:
    make()
    report = find()
    assert not report and report.text == "no tensors were left to the garbage collector"


def test_a_cycle_in_use_is_not_reported() -> None:
    box = Box(t=FakeTensor())
    box.me = box
    assert not find()
    box.me = None


def test_a_suspended_generator_frees_its_tensor_itself() -> None:
    def waiting() -> Iterator[Any]:
        tensor = FakeTensor()
        own = yield None
        yield own, tensor

    generator: Any = waiting()
    next(generator)
    generator.send(generator)
    del generator
    report = find()
    assert report and (report.tensors, report.lost) == (0, 1)
    assert "finalizers of garbage freed 1 tensor" in report.text


def test_what_a_finalizer_frees_of_the_living_is_not_reported() -> None:
    cache = [FakeTensor()]

    class Emptying:
        def __init__(self) -> None:
            self.me = self

        def __del__(self) -> None:
            cache.clear()

    Emptying()
    assert not find() and not cache


def test_what_a_finalizer_saves_is_not_reported() -> None:
    saved = []

    class Saving:
        def __init__(self) -> None:
            self.me: Any = self
            self.t = FakeTensor()

        def __del__(self) -> None:
            saved.append(self)

    Saving()
    report = find()
    assert report.tensors == 0
    assert type(saved[0].t) is FakeTensor
    saved.pop().me = None


def test_a_finalizer_runs_once() -> None:
    closed.clear()
    finalizer()
    find()
    gc.collect()
    assert closed == ["Closing"]


def test_weak_references_to_garbage_are_cleared_with_their_callbacks() -> None:
    called: list[Any] = []
    box = Box(t=FakeTensor())
    box.me = box
    reference = weakref.ref(box.t, called.append)
    del box
    assert find() and called == [reference] and reference() is None


def test_devices_are_told_apart() -> None:
    for device in ("cuda:0", "cuda:1", "cpu", "meta"):
        box = Box(t=FakeTensor(device=device))
        box.me = box
    del box
    seen: dict[str, list[str]] = {}

    def note(name: str) -> Callable[[Report], None]:
        return lambda report: seen.setdefault(name, []).extend(
            kept.device for cycle in report.cycles for kept in cycle.tensors
        )

    watches = [cycles.watch(note(name), device=name, tensor_type=FakeTensor, log=False) for name in ("cuda", "cuda:1", "cpu", "any")]
    gc.collect()
    for watch in watches:
        watch.stop()
    assert {name: sorted(devices) for name, devices in seen.items()} == {
        "cuda": ["cuda:0", "cuda:1"],
        "cuda:1": ["cuda:1"],
        "cpu": ["cpu"],
        "any": ["cpu", "cuda:0", "cuda:1", "meta"],
    }


def test_subclasses_are_tensors_too() -> None:
    class Parameter(FakeTensor):
        pass

    box = Box(t=Parameter())
    box.me = box
    del box
    [cycle] = find().cycles
    assert cycle.tensors[0].type.endswith("Parameter")
    del Parameter
    gc.collect()


def test_a_class_without_weak_references_is_refused() -> None:
    class Bare:
        __slots__ = ()

    with pytest.raises(TypeError, match="`Bare` allows no weak references"):
        cycles.watch(tensor_type=Bare)
    del Bare
    gc.collect()


def test_a_tensor_that_says_nothing_is_found_all_the_same() -> None:
    class Mute:
        pass

    box = Box(t=Mute())
    box.me = box
    del box
    report = cycles.find(tensor_type=Mute, device="any")
    [cycle] = report.cycles
    assert (cycle.tensors[0].attribute_path, report.size_bytes) == ("Box.t", 0)
    del Mute, report, cycle
    gc.collect()


def test_without_torch_nothing_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    itself()
    assert not cycles.find()
