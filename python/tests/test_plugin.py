"""The marker `gpu_memory`, with a torch that is made up."""

from __future__ import annotations

import pytest
from conftest import recording
from fake_tensors import FakeTensor
from fake_torch import FakeTorch


@pytest.fixture(autouse=True)
def _torch(torch: FakeTorch) -> None:
    """Each test has one."""


def _run(pytester: pytest.Pytester, marker: str, body: str = "pass") -> pytest.RunResult:
    pytester.makepyfile(f"import pytest\n@pytest.mark.gpu_memory({marker})\ndef test_it():\n    {body}\n")
    return pytester.runpytest_inprocess("-p", "no:cacheprovider", "-rs")


def test_budgets_that_are_kept_pass(pytester: pytest.Pytester) -> None:
    _run(pytester, "peak_allocated='5GiB', peak_reserved='5GiB', growth='1MiB'").assert_outcomes(passed=1)


def test_a_peak_over_its_budget_fails_with_the_report(pytester: pytest.Pytester) -> None:
    result = _run(pytester, "peak_allocated='2GiB'")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*FAIL  max-peak-allocated*2.00 GiB*", "*Device 0 peaked at*"])


def test_what_is_left_behind_is_growth(pytester: pytest.Pytester, torch: FakeTorch) -> None:
    held = iter([1000, 3000])
    torch.cuda.memory_allocated = lambda device: next(held)
    result = _run(pytester, "growth=1999")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*leaves 2,000 bytes of GPU memory behind, 1999 allowed*"])


def test_a_test_that_fails_fails_as_itself(pytester: pytest.Pytester) -> None:
    result = _run(pytester, "peak_allocated=1", "assert 1 == 2")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*assert 1 == 2*"])
    result.stdout.no_fnmatch_line("*max-peak-allocated*")


def test_without_cuda_it_is_skipped_and_says_so(pytester: pytest.Pytester, torch: FakeTorch) -> None:
    torch.devices = 0
    result = _run(pytester, "peak_allocated='2GiB'", "assert False")
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["*gpu_memory: torch finds no GPU*"])


def test_the_drivers_own_allocator_is_skipped(pytester: pytest.Pytester, torch: FakeTorch) -> None:
    torch.backend = "cudaMallocAsync"
    _run(pytester, "peak_allocated='2GiB'").assert_outcomes(skipped=1)


@pytest.mark.parametrize("marker", ["peak='2GiB'", "", "'2GiB'"])
def test_budgets_are_named(pytester: pytest.Pytester, marker: str) -> None:
    result = _run(pytester, marker)
    assert result.ret != 0
    result.stdout.fnmatch_lines(["*known: peak_allocated, peak_requested, peak_reserved, growth, cycles*"])


def test_the_marker_is_known(pytester: pytest.Pytester) -> None:
    assert recording("linear_forward").exists()
    pytester.runpytest_inprocess("--markers").stdout.fnmatch_lines(["@pytest.mark.gpu_memory(*"])


_CYCLE = "from fake_tensors import Box, FakeTensor; b = Box(t=FakeTensor()); b.me = b; del b"


@pytest.mark.parametrize(("allowed", "passes"), [(0, False), (1, True)])
def test_cycles_that_hold_tensors_are_counted(
    pytester: pytest.Pytester, torch: FakeTorch, monkeypatch: pytest.MonkeyPatch, allowed: int, passes: bool
) -> None:
    monkeypatch.setattr(torch, "Tensor", FakeTensor, raising=False)
    result = _run(pytester, f"cycles={allowed}", _CYCLE)
    result.assert_outcomes(passed=int(passes), failed=int(not passes))
    if not passes:
        result.stdout.fnmatch_lines(["*leaves 1 reference cycle with tensors behind, 0 allowed*", "*Box.t is a FakeTensor*"])


def test_a_test_without_cycles_keeps_its_budget(
    pytester: pytest.Pytester, torch: FakeTorch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch, "Tensor", FakeTensor, raising=False)
    _run(pytester, "cycles=0", "from fake_tensors import Box, FakeTensor; Box(t=FakeTensor())").assert_outcomes(passed=1)


@pytest.mark.parametrize("value", ["'none'", "-1", "True"])
def test_a_number_of_cycles_is_a_number(pytester: pytest.Pytester, value: str) -> None:
    result = _run(pytester, f"cycles={value}")
    assert result.ret != 0
    result.stdout.fnmatch_lines(["*`cycles` is a number, 0 or more*"])
