"""A watch over the garbage collector: it sees every run, and the program does not notice."""

from __future__ import annotations

import cProfile
import gc
import os
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from cyclic import find, is_hooked, itself, tensors
from fake_tensors import Box, FakeTensor

from highwater import cycles
from highwater.cycles import Report

pytestmark = pytest.mark.usefixtures("collector_as_it_was")

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
    if sys.version_info[:2] == (3, 12):
        # It begins collections amid the callbacks of others: docs/cycles.md.
        assert 100 <= watch.found <= 300
    else:
        assert watch.found == 200
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
