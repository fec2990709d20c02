"""The report on reference cycles: its page, its graph, and that it touches nothing."""

from __future__ import annotations

import gc
import re
import weakref
from pathlib import Path
from typing import Any

import pytest
from cyclic import find, itself, tensor_on_the_cycle, tensors
from fake_tensors import Box, FakeTensor
from hypothesis import given, settings
from hypothesis import strategies as st

from highwater import cycles
from highwater.cycles import Report

pytestmark = pytest.mark.usefixtures("collector_as_it_was")

def test_the_page_and_the_graph_are_whole(tmp_path: Path) -> None:
    box = Box(**{"<b>&": 1})
    box.parts = {"</svg><script>": FakeTensor()}
    box.me = box
    del box
    itself()
    tensor_on_the_cycle()
    report = find()
    written = report.to_html(tmp_path / "cycles.html")
    page = written.read_text()
    assert written == tmp_path / "cycles.html" and page.count("<svg") == 4
    assert "<script" not in page and "&lt;/svg&gt;&lt;script&gt;" in page and "http" not in page.replace("http-equiv", "")
    graph = report.to_dot()
    assert graph.startswith("digraph cycles {") and graph.endswith("}\n")
    assert graph.count("color=red") == 3
    defined = set(re.findall(r"^  (n\d+) \[", graph, re.MULTILINE))
    edges = re.findall(r"^  (n\d+) -> (n\d+) \[", graph, re.MULTILINE)
    # Two boxes refer to themselves, one by a dict to its tensor, and a tensor to itself.
    assert len(edges) == 6 and {node for edge in edges for node in edge} == defined


def test_cycles_of_one_kind_are_shown_once(tmp_path: Path) -> None:
    gc.disable()
    try:
        for number in range(5):
            box = Box(hooks={number: Box(t=[FakeTensor() for _ in range(8)])})
            box.hooks[number].back = box
            del box
        report = find()
    finally:
        gc.enable()
    assert len(report.cycles) == 5 and [len(kind.cycles) for kind in report.kinds] == [5]
    assert report.text.count("kept by") == 1 and "and 4 more like it, 40.00 MiB in all" in report.text
    page = report.to_html(tmp_path / "cycles.html").read_text()
    assert page.count("<section>") == 1 and "and 4 more like it" in page and "and 2 more tensors" in page


def test_a_page_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError):
        Report().to_html(tmp_path / "file" / "cycles.html")


def test_a_report_keeps_no_object() -> None:
    class Own:
        pass

    owner: Any = Own()
    owner.me, owner.t = owner, FakeTensor()
    alive = weakref.ref(Own)
    del Own, owner
    report = find()
    gc.collect()
    assert report.cycles[0].tensors[0].attribute_path == "Own.t"
    assert alive() is None


def test_no_code_of_the_garbage_runs() -> None:
    touched: list[str] = []

    class Touchy:
        def __getattr__(self, name: str) -> Any:
            touched.append(name)
            raise AttributeError(name)

        def __repr__(self) -> str:
            touched.append("repr")
            return ""

        def __eq__(self, other: object) -> bool:
            touched.append("eq")
            return False

        def __hash__(self) -> int:
            return 1

        @property
        def t(self) -> Any:
            touched.append("t")
            return None

    class TouchyDict(dict[Any, Any]):
        def items(self) -> Any:
            touched.append("items")
            return []

        def __iter__(self) -> Any:
            touched.append("iter")
            return iter([])

    touchy: Any = Touchy()
    touchy.map = TouchyDict({touchy: [FakeTensor()]})
    del touchy
    touched.clear()
    [cycle] = find().cycles
    assert touched == []
    assert cycle.tensors[0].attribute_path == "TouchyDict[<Touchy>][0]"
    del Touchy, TouchyDict
    gc.collect()


# A fast answer equals a slow one.


@settings(max_examples=100, deadline=None)
@given(
    st.integers(1, 9).flatmap(
        lambda count: st.tuples(
            st.just(count),
            st.lists(st.tuples(st.integers(0, count - 1), st.integers(0, count - 1)), max_size=16),
            st.sets(st.integers(0, count - 1)),
        )
    )
)
def test_found_is_what_a_cycle_leads_to(graph: tuple[int, list[tuple[int, int]], set[int]]) -> None:
    count, edges, holders = graph
    boxes = [Box(number=at, t=FakeTensor(at + 1) if at in holders else None) for at in range(count)]
    for number, (source, target) in enumerate(edges):
        setattr(boxes[source], f"edge{number}", boxes[target])
    reach = {at: {target for source, target in edges if source == at} for at in range(count)}
    for _ in range(count):
        reach = {at: direct.union(*(reach[other] for other in direct)) for at, direct in reach.items()}
    kept = {at for at in range(count) if any(on in reach[on] and (at == on or at in reach[on]) for on in range(count))}
    expected = sorted(at + 1 for at in kept & holders)
    gc.disable()
    try:
        del boxes
        report = find()
    finally:
        gc.enable()
    assert sorted(tensor.size_bytes for cycle in report.cycles for tensor in cycle.tensors) == expected
    assert report.size_bytes == sum(expected)
    assert tensors() == 0
