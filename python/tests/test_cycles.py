"""Reference cycles that hold tensors: what is found in a set of them, and that the program does not notice."""

from __future__ import annotations

import cProfile
import functools
import gc
import logging
import os
import subprocess
import sys
import textwrap
import threading
import time
import types
import weakref
from collections import deque, namedtuple
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_tensors import Box, FakeStorage, FakeTensor
from hypothesis import given, settings
from hypothesis import strategies as st

from highwater import cycles
from highwater._collector import collector
from highwater.cycles import CyclesFound, Report


def find(**options: Any) -> Report:
    """Looks now, for made-up tensors."""
    return cycles.find(tensor_type=FakeTensor, **options)


@pytest.fixture(autouse=True)
def _nothing_is_left() -> Iterator[None]:
    """Each test begins without garbage, and leaves the collector as it was."""
    gc.collect()
    yield
    assert (gc.get_debug(), gc.garbage, sys.getprofile()) == (0, [], None)
    assert not is_hooked()
    gc.collect()
    assert tensors() == 0


def is_hooked() -> bool:
    """Whether the collector tells us anything."""
    return collector._on_collection in gc.callbacks


def tensors() -> int:
    """Tensors that are there."""
    return sum(isinstance(obj, FakeTensor) for obj in gc.get_objects())


# The set: each makes garbage, and says how the tensor hangs on its cycle and which references close that.


def itself() -> None:
    box = Box(t=FakeTensor())
    box.me = box


def tensor_on_the_cycle() -> None:
    tensor: Any = FakeTensor()
    tensor.me = tensor


def closure() -> None:
    tensor = FakeTensor()

    def again(n: int) -> Any:
        return again(n - 1) if n else tensor


def closure_over_its_object() -> None:
    box = Box(t=FakeTensor())
    box.hook = lambda: box


def default_argument() -> None:
    def function(kept: Any = FakeTensor()) -> None:  # noqa: B008
        pass

    function.me = function  # type: ignore[attr-defined]


def bound_method() -> None:
    class Owner:
        def __init__(self) -> None:
            self.t = FakeTensor()
            self.callback = self.method

        def method(self) -> None: ...

    Owner()


raised: list[None] = []


def exception_kept() -> None:
    tensor = FakeTensor()
    try:
        raise ValueError
    except ValueError as error:
        kept = error
    raised.append(None)


def partial() -> None:
    box = Box(t=FakeTensor())
    box.call = functools.partial(print, box)


def hooks_of_a_module() -> None:
    module = Box(_parameters={"weight": FakeTensor()}, _forward_hooks={})
    module._forward_hooks[7] = lambda *_: module


def nested_containers() -> None:
    box = Box()
    box.parts = {"first": [1, ({"x": FakeTensor()}, 2)]}
    box.back = [[box]]


def slots() -> None:
    class Slotted:
        __slots__ = ("me", "t")

    slotted: Any = Slotted()
    slotted.me = slotted
    slotted.t = FakeTensor()


Pair = namedtuple("Pair", ["first", "second"])


def named_tuple() -> None:
    box = Box()
    box.pair = Pair(box, FakeTensor())


def set_and_deque() -> None:
    box = Box(t=deque([None, FakeTensor()]))
    box.all = {box}


def derived_containers() -> None:
    class Own(dict[str, Any]):
        pass

    own = Own()
    own["me"] = own
    own["t"] = FakeTensor()


def finalizer() -> None:
    class Closing:
        def __init__(self) -> None:
            self.me = self
            self.t = FakeTensor()

        def __del__(self) -> None:
            closed.append(type(self).__name__)

    Closing()


closed: list[str] = []


def across_modules() -> None:
    one, two = types.ModuleType("one"), types.ModuleType("two")
    one.two = two  # type: ignore[attr-defined]
    two.one = one  # type: ignore[attr-defined]
    two.cache = {3: FakeTensor()}  # type: ignore[attr-defined]


def class_attribute() -> None:
    class Holder:
        cache = FakeTensor()


def finished_generator_frame() -> None:
    def numbers(box: Box) -> Iterator[int]:
        box.frame = sys._getframe()
        box.t = FakeTensor()
        yield 1

    box = Box()
    list(numbers(box))


def long_way() -> None:
    box = Box(a=Box(b=Box(c=[FakeTensor()])))
    box.me = box


SET: list[tuple[Callable[[], None], str, list[str]]] = [
    (itself, "Box.t", ["Box.me"]),
    (tensor_on_the_cycle, "FakeTensor", ["FakeTensor.me"]),
    (closure, "function closure.<locals>.again (HERE:LINE) closure `tensor`", ["function closure.<locals>.again (HERE:LINE) closure `again`"]),
    (
        closure_over_its_object,
        "Box.t",
        ["Box.hook", "function closure_over_its_object.<locals>.<lambda> (HERE:LINE) closure `box`"],
    ),
    (default_argument, "function default_argument.<locals>.function (HERE:LINE).__defaults__[0]", ["function default_argument.<locals>.function (HERE:LINE).me"]),
    (bound_method, "Owner.t", ["Owner.callback", "method bound_method.<locals>.Owner.method (HERE:LINE).__self__"]),
    (
        exception_kept,
        "frame exception_kept (HERE:LINE) local `tensor`",
        ["frame exception_kept (HERE:LINE) local `kept`", "ValueError.__traceback__", "traceback exception_kept (HERE:LINE).tb_frame"],
    ),
    (partial, "Box.t", ["Box.call", "partial.args", "tuple[0]"]),
    (
        hooks_of_a_module,
        "Box._parameters['weight']",
        ["Box._forward_hooks", "dict[7]", "function hooks_of_a_module.<locals>.<lambda> (HERE:LINE) closure `module`"],
    ),
    (nested_containers, "Box.parts['first'][1][0]['x']", ["Box.back", "list[0]", "list[0]"]),
    (slots, "Slotted.t", ["Slotted.me"]),
    (named_tuple, "Pair.second", ["Pair.first", "Box.pair"]),
    (set_and_deque, "Box.t[1]", ["Box.all", "set element"]),
    (derived_containers, "Own['t']", ["Own['me']"]),
    (finalizer, "Closing.t", ["Closing.me"]),
    (across_modules, "module two.cache[3]", ["module two.one", "module one.two"]),
    (class_attribute, "type class_attribute.<locals>.Holder.cache", ["type class_attribute.<locals>.Holder.__dict__", "getset_descriptor.__objclass__"]),
    (long_way, "Box.a.b.c[0]", ["Box.me"]),
]


def _plain(text: str) -> str:
    """Without the place of this file and its lines."""
    import re

    return re.sub(rf"\({re.escape(__file__)}:\d+\)", "(HERE:LINE)", text)


@pytest.mark.parametrize(("make", "path", "cycle"), SET, ids=[make.__name__ for make, _, _ in SET])
def test_a_cycle_is_found_and_named(make: Callable[[], None], path: str, cycle: list[str]) -> None:
    make()
    report = find()
    assert report.tensors == 1 and report.size_bytes == 1 << 20 and not report.lost
    [found] = report.cycles
    [kept] = found.tensors
    assert _plain(kept.attribute_path) == path
    assert [_plain(step.text) for step in kept.cycle] == cycle
    assert (kept.type, kept.dtype, kept.device, kept.shape) == ("fake_tensors.FakeTensor", "torch.uint8", "cuda:0", (1 << 20,))
    assert tensors() == 0


@pytest.fixture
def _collector_off() -> Iterator[None]:
    """It runs when it is asked."""
    gc.disable()
    yield
    gc.enable()


def test_a_thousand_one_after_the_other() -> None:
    with cycles.watch(tensor_type=FakeTensor, log=False) as watch:
        for _ in range(1000):
            itself()
        gc.collect()
    # What is dropped while a watch frees what it found before may go unreported: docs/cycles.md.
    assert 990 <= watch.found <= 1000


@pytest.mark.usefixtures("_collector_off")
def test_a_thousand_at_once() -> None:
    for _ in range(1000):
        itself()
    report = find()
    assert (report.tensors, len(report.cycles), report.size_bytes) == (1000, 1000, 1000 << 20)
    assert {cycle.tensors[0].attribute_path for cycle in report.cycles} == {"Box.t"}
    assert "and 990 more cycles" in report.text


def test_a_thousand_on_one_cycle() -> None:
    box = Box(all=[FakeTensor(1000 + at) for at in range(1000)])
    box.me = box
    del box
    [cycle] = find().cycles
    assert [kept.size_bytes for kept in cycle.tensors] == list(range(1999, 999, -1))
    assert cycle.tensors[0].attribute_path == "Box.all[999]"
    assert "and 997 more" in cycle.text


@pytest.mark.usefixtures("_collector_off")
def test_the_whole_set_at_once() -> None:
    for make, _, _ in SET:
        make()
    report = find()
    paths = sorted(kept_path(report))
    assert paths == sorted(path for _, path, _ in SET)


def kept_path(report: Report) -> list[str]:
    return [_plain(kept.attribute_path) for cycle in report.cycles for kept in cycle.tensors]


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


def no_cycle() -> None:
    box = Box(t=FakeTensor())
    box.list = [box.t, {"t": box.t}]


def weak_cycle() -> None:
    box = Box(t=FakeTensor())
    box.child = Box(parent=weakref.ref(box), proxy=weakref.proxy(box))


def exception_let_go() -> None:
    tensor = FakeTensor()
    try:
        raise ValueError(tensor)
    except ValueError:
        pass


def cycle_without_a_tensor() -> None:
    box = Box()
    box.me = box


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


# Watching.


def test_a_young_collection_reports_and_frees() -> None:
    reports: list[Report] = []
    with cycles.watch(reports.append, tensor_type=FakeTensor) as watch:
        itself()
        gc.collect(0)
        assert tensors() == 0
        assert watch.found == 1
    assert [report.generation for report in reports] == [0]
    assert repr(watch) == "<highwater.cycles.Watch, stopped, 1 tensors found>"


def test_the_collector_is_noticed_when_it_runs_by_itself() -> None:
    reports: list[Report] = []
    with cycles.watch(reports.append, tensor_type=FakeTensor, log=False):
        itself()
        kept = [[at] for at in range(10_000)]
    assert [report.tensors for report in reports] == [1] and len(kept) == 10_000


def test_a_collector_that_is_off_stays_off() -> None:
    gc.disable()
    try:
        itself()
        assert find().tensors == 1
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_the_memory_is_free_when_the_next_function_runs() -> None:
    with cycles.watch(tensor_type=FakeTensor, log=False):
        for _ in range(5):
            itself()
            gc.collect()
            assert tensors() == 0


def test_a_program_that_is_profiled_stays_so() -> None:
    reports: list[Report] = []
    profile = cProfile.Profile()
    with cycles.watch(reports.append, tensor_type=FakeTensor, log=False) as watch:
        profile.enable()
        itself()
        gc.collect()
        now = sys.getprofile()
        profile.disable()
        # From Python 3.12 on cProfile has a place of its own.
        assert now is not None or sys.version_info >= (3, 12)
        watch.stop()
    assert len(reports) == 1 and tensors() == 0


def test_what_the_program_keeps_of_its_garbage_stays() -> None:
    reports: list[Report] = []
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        with cycles.watch(reports.append, tensor_type=FakeTensor, log=False):
            itself()
            gc.collect()
            assert gc.get_debug() == gc.DEBUG_SAVEALL
            assert any(type(obj) is Box for obj in gc.garbage)
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
    assert [report.tensors for report in reports] == [1]


def test_nested_watches_each_report() -> None:
    outer: list[Report] = []
    inner: list[Report] = []
    with cycles.watch(outer.append, tensor_type=FakeTensor, log=False):
        itself()
        gc.collect()
        with cycles.watch(inner.append, tensor_type=FakeTensor, log=False):
            itself()
            gc.collect()
            assert find() == Report()
        itself()
        gc.collect()
    assert (len(outer), len(inner)) == (3, 1)


def test_stopping_twice_is_stopping_once() -> None:
    watch = cycles.watch(tensor_type=FakeTensor)
    other = cycles.watch(tensor_type=FakeTensor)
    watch.stop()
    watch.stop()
    assert is_hooked()
    other.stop()
    assert not is_hooked()


def test_the_error_of_a_block_is_its_own() -> None:
    with pytest.raises(KeyboardInterrupt), cycles.watch(tensor_type=FakeTensor, log=False):
        itself()
        raise KeyboardInterrupt


def test_a_callback_that_fails_is_said_and_harms_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[Any] = []
    monkeypatch.setattr(threading, "excepthook", said.append)

    def fail(report: Report) -> None:
        raise RuntimeError("mine")

    with cycles.watch(fail, tensor_type=FakeTensor, log=False):
        itself()
        gc.collect()
    assert [str(hook.exc_value) for hook in said] == ["mine"]
    said.clear()


def test_a_callback_may_wait_for_what_the_program_has_locked() -> None:
    lock = threading.Lock()
    reports: list[Report] = []

    def wait(report: Report) -> None:
        with lock:
            reports.append(report)

    with cycles.watch(wait, tensor_type=FakeTensor, log=False):
        with lock:
            itself()
            gc.collect()
            assert tensors() == 0
        itself()
        gc.collect()
    assert len(reports) == 2


def test_a_callback_may_make_cycles_itself() -> None:
    reports: list[Report] = []

    def careless(report: Report) -> None:
        reports.append(report)
        if len(reports) < 3:
            itself()
            gc.collect()

    with cycles.watch(careless, tensor_type=FakeTensor, log=False):
        itself()
        gc.collect()
        deadline = time.monotonic() + 10
        while len(reports) < 3 and time.monotonic() < deadline:
            time.sleep(0.01)
    assert len(reports) == 3


def test_every_thread_is_watched() -> None:
    reports: list[Report] = []

    def work() -> None:
        for _ in range(50):
            itself()
            gc.collect(0)

    with cycles.watch(reports.append, tensor_type=FakeTensor, log=False) as watch:
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        gc.collect()
    # After some rounds a run only frees, so a few may be freed unseen where all threads leak at the same time.
    assert 100 <= watch.found <= 200
    assert sum(report.tensors for report in reports) == watch.found


def test_what_is_made_while_something_waits_to_be_freed_is_found() -> None:
    reports: list[Report] = []

    def again(phase: str, info: dict[str, int]) -> None:
        # Runs after ours, so what was found is waiting.
        if phase == "stop" and len(reports_due) < 3:
            reports_due.append(None)
            itself()

    reports_due: list[None] = []
    with cycles.watch(reports.append, tensor_type=FakeTensor, log=False) as watch:
        gc.callbacks.append(again)
        try:
            itself()
            gc.collect()
            assert tensors() == 0
        finally:
            gc.callbacks.remove(again)
    assert watch.found == 4
    assert sum(report.tensors for report in reports) == 4


def test_how_long_they_waited_is_bounded_by_the_run_before() -> None:
    reports: list[Report] = []
    with cycles.watch(reports.append, tensor_type=FakeTensor, log=False):
        itself()
        gc.collect()
        time.sleep(0.05)
        itself()
        gc.collect()
    assert reports[0].waited_at_most_secs is None
    waited = reports[1].waited_at_most_secs
    assert waited is not None and 0.05 <= waited < 5
    assert "out of use for at most" in reports[1].text


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_watches_on() -> None:
    with cycles.watch(tensor_type=FakeTensor, log=False) as watch:
        itself()
        child = os.fork()
        if child == 0:
            gc.collect()
            os._exit(0 if watch.found == 1 and tensors() == 0 else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        gc.collect()
        assert watch.found == 1


@pytest.mark.parametrize("ending", ["", "raise SystemExit(0)", "import sys; sys.stdout.close()"])
def test_the_end_of_the_process_is_quiet(ending: str) -> None:
    program = f"""
        import gc, sys
        sys.path.insert(0, {str(Path(__file__).parent)!r})
        from fake_tensors import Box, FakeTensor
        import highwater
        watch = highwater.cycles.watch(tensor_type=FakeTensor, log=False)
        box = Box(t=FakeTensor()); box.me = box; del box
        gc.collect()
        box = Box(t=FakeTensor()); box.me = box; del box
        {ending}
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_log_describes_a_kind_of_cycle_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "highwater.cycles")
    with cycles.watch(tensor_type=FakeTensor):
        for make in (itself, itself, slots):
            make()
            gc.collect()
            collector.settle()
    assert [(record.levelname, "kept by" in record.getMessage()) for record in caplog.records] == [
        ("WARNING", True),
        ("INFO", False),
        ("WARNING", True),
    ]
    assert caplog.records[1].getMessage().endswith("; as before")


# Checking.


def test_a_check_passes_where_nothing_is_left() -> None:
    itself()
    with cycles.check(tensor_type=FakeTensor) as reports:
        no_cycle()
        cycle_without_a_tensor()
    assert reports == []


def test_a_check_fails_with_what_was_found() -> None:
    with pytest.raises(CyclesFound) as raised, cycles.check(tensor_type=FakeTensor):
        itself()
        gc.collect()
        hooks_of_a_module()
    assert isinstance(raised.value, AssertionError)
    assert "Box.t is a FakeTensor uint8 1048576 on cuda:0, 1.00 MiB" in str(raised.value)
    assert "Box._parameters['weight']" in str(raised.value)
    assert len(raised.value.reports) == 2


def test_a_check_allows_some() -> None:
    with cycles.check(allowed=2, tensor_type=FakeTensor):
        itself()
        itself()
    with pytest.raises(CyclesFound), cycles.check(allowed=2, tensor_type=FakeTensor):
        for _ in range(3):
            itself()


def test_a_block_that_fails_fails_as_itself() -> None:
    with pytest.raises(ZeroDivisionError), cycles.check(tensor_type=FakeTensor):
        itself()
        print(1 / 0)


# The report.


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
    import re

    defined = set(re.findall(r"^  (n\d+) \[", graph, re.MULTILINE))
    edges = re.findall(r"^  (n\d+) -> (n\d+) \[", graph, re.MULTILINE)
    # Two boxes refer to themselves, one by a dict to its tensor, and a tensor to itself.
    assert len(edges) == 6 and {node for edge in edges for node in edge} == defined


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
