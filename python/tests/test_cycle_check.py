"""What a check of reference cycles says, and what the log."""

from __future__ import annotations

import gc
import logging

import pytest
from cyclic import cycle_without_a_tensor, hooks_of_a_module, itself, no_cycle, raised, slots
from fake_tensors import FakeTensor

from highwater import cycles
from highwater._collector import collector
from highwater.cycles import CyclesFound

pytestmark = pytest.mark.usefixtures("collector_as_it_was")

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
