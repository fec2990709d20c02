"""`highwater.dryrun()`, and the budgets that use it. What needs torch needs no GPU."""

from __future__ import annotations

import importlib.util
import os

import highwater
import pytest

with_torch = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None or "HIGHWATER_NULLGPU_CARD" in os.environ,
    reason="needs torch, and begins the dry run itself",
)


def train(width: int, steps: int = 5) -> None:
    import torch

    model = torch.nn.Linear(width, width).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(steps):
        model(torch.randn(8, width, device="cuda")).sum().backward()
        optimizer.step()
        optimizer.zero_grad()


def fail() -> None:
    import torch

    torch.ones(1000, device="cuda")
    raise ValueError("no luck")


@with_torch
def test_a_function_is_run_and_its_recording_given() -> None:
    snapshot = highwater.dryrun(train, args=(1024,), gpu="h100", steps=2)
    weights = (1024 * 1024 + 1024) * 4
    assert snapshot.devices == [0]
    peak = snapshot.peak()["requested_bytes"]
    assert peak is not None and peak > 4 * weights
    assert len(snapshot.report()["devices"][0]["iterations"]) == 2


@with_torch
def test_a_card_that_is_too_small_is_an_error_with_the_recording() -> None:
    with pytest.raises(highwater.DryRunError, match="CUDA out of memory") as caught:
        highwater.dryrun(train, kwargs={"width": 30_000}, memory="4GiB")
    assert caught.value.ended == "oom"
    assert caught.value.snapshot is not None
    assert caught.value.snapshot.report()["devices"][0]["oom"]


@with_torch
def test_a_function_that_fails_is_an_error_with_the_recording() -> None:
    with pytest.raises(highwater.DryRunError, match="no luck") as caught:
        highwater.dryrun(fail)
    assert (caught.value.ended, caught.value.snapshot is None) == ("error", False)


def test_what_another_process_cannot_find_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "cloudpickle", None)
    with pytest.raises(highwater.DryRunError, match="put it into a module"):
        highwater.dryrun(lambda: None)


TESTS = """
import pytest

@pytest.mark.gpu_memory(peak_reserved="1GiB", dryrun="h100")
def test_fits():
    import torch
    torch.nn.Linear(100, 100).cuda()

@pytest.mark.gpu_memory(peak_requested="10MiB", dryrun="h100")
def test_too_large():
    import torch
    torch.ones(10 << 20, device="cuda")

@pytest.mark.gpu_memory(peak_requested="10MiB", dryrun="h100")
def test_fails_by_itself():
    import torch
    torch.ones(2, device="cuda")
    assert False, "a failure of its own"
"""


@with_torch
def test_a_budget_is_kept_on_an_imagined_card(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(TESTS)
    result = pytester.runpytest_subprocess()
    result.assert_outcomes(passed=1, failed=2)
    result.stdout.fnmatch_lines(["*FAIL*max-peak-requested*", "*a failure of its own*"])


@pytest.mark.parametrize("option", ["growth='1MiB'", "cycles=0"])
def test_what_a_dry_run_does_not_measure_is_said(pytester: pytest.Pytester, option: str) -> None:
    pytester.makepyfile(
        f"import pytest\n@pytest.mark.gpu_memory({option}, dryrun='h100')\ndef test_it(): pass\n"
    )
    result = pytester.runpytest_subprocess()
    result.stdout.fnmatch_lines([f"*{option.split('=')[0]}*is not measured in a dry run*"])
