"""The marker ``gpu_memory``: budgets for the GPU memory of a test.

    @pytest.mark.gpu_memory(peak_allocated="2GiB", growth="1MiB", cycles=0)
    def test_training_step():
        ...

The test is recorded and checked against the budgets; if one is exceeded, it fails with the text of ``highwater check`` and with
the report. On a machine without CUDA the test is skipped, with a message. With ``dryrun="h100"`` it runs in a separate process
with such an imitated GPU, on any machine.
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from highwater.cycles import Report

BUDGETS = ("peak_allocated", "peak_requested", "peak_reserved")
OPTIONS = (*BUDGETS, "growth", "cycles", "dryrun")


def pytest_configure(config: pytest.Config) -> None:
    """Makes the marker known."""
    config.addinivalue_line(
        "markers",
        "gpu_memory(peak_allocated=None, peak_requested=None, peak_reserved=None, growth=None, cycles=None, dryrun=None): "
        "the most GPU memory that the test may use, such as '2GiB', and leave behind, and how many reference cycles may hold tensors; "
        "skipped without CUDA, unless `dryrun` gives a GPU to imitate, such as 'h100'",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skips before any fixture is made."""
    marker = item.get_closest_marker("gpu_memory")
    if marker is None:
        return
    _check_options(marker)
    if "dryrun" in marker.kwargs:
        return
    from highwater import _torch

    try:
        _torch.check_cuda()
    except _torch.Unavailable as why:
        pytest.skip(f"gpu_memory: {why}")
    if _torch.is_asynchronous():
        pytest.skip("gpu_memory: PyTorch keeps no history of `backend:cudaMallocAsync`")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, None]:
    """Records the test, and checks the recording."""
    marker = item.get_closest_marker("gpu_memory")
    if marker is None or "dryrun" in marker.kwargs:
        yield
        return
    from highwater import _torch, cycles, record

    with tempfile.TemporaryDirectory(prefix="highwater-") as folder:
        recorder = record(Path(folder) / "test.pickle", on_oom=False)
        # What a test before left to the collector is not this one's.
        gc.collect()
        held = _held(_torch)
        reports: list[Report] = []
        allowed = marker.kwargs.get("cycles")
        watch = None if allowed is None else cycles.watch(reports.append, log=False)
        recorder.start()
        outcome = yield
        if watch is not None:
            # What the test itself left to the collector counts, too.
            gc.collect()
            watch.stop()
        left = _held(_torch)
        written = recorder.stop()
        if outcome.excinfo is not None:
            return
        try:
            _check(marker, written, left - held)
            if allowed is not None and cycles.count(reports) > allowed:
                pytest.fail(_cycles(reports, allowed), pytrace=False)
        except BaseException as failure:
            outcome.force_exception(failure)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Runs the test in another process, with an imitated GPU. In that process the test simply runs."""
    marker = pyfuncitem.get_closest_marker("gpu_memory")
    if marker is None or "dryrun" not in marker.kwargs or "HIGHWATER_DRYRUN" in os.environ:
        return None
    with tempfile.TemporaryDirectory(prefix="highwater-") as folder:
        written = Path(folder) / "test.pickle"
        words = ["dryrun", "--gpu", str(marker.kwargs["dryrun"]), "--python", sys.executable, "--output", str(written)]
        test = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(pyfuncitem.config.rootpath), pyfuncitem.nodeid]
        ran = subprocess.run(
            [sys.executable, "-m", "highwater", *words, *test],
            cwd=pyfuncitem.config.rootpath,
            capture_output=True,
            text=True,
            check=False,
        )
        if ran.returncode != 0:
            pytest.fail(f"in the dry run:\n{ran.stderr}", pytrace=False)
        _check(marker, written, 0)
    return True


def _check_options(marker: pytest.Mark) -> None:
    unknown = sorted(set(marker.kwargs) - set(OPTIONS))
    if unknown or marker.args or not marker.kwargs:
        what = f"`{unknown[0]}` is not a budget" if unknown else "each budget needs its name"
        raise pytest.UsageError(f"gpu_memory: {what}; known: {', '.join(OPTIONS)}")
    alone = sorted({"growth", "cycles"} & set(marker.kwargs)) if "dryrun" in marker.kwargs else []
    if alone:
        raise pytest.UsageError(f"gpu_memory: `{alone[0]}` is not measured in a dry run")
    cycles = marker.kwargs.get("cycles")
    if cycles is not None and (type(cycles) is not int or cycles < 0):
        raise pytest.UsageError(f"gpu_memory: `cycles` is a number, 0 or more, not {cycles!r}")


def _held(torch: Any) -> int:
    """Bytes that tensors own, on all devices."""
    gc.collect()
    return sum(device["allocated_bytes"] for device in torch.totals())


def _check(marker: pytest.Mark, written: Path | None, growth: int) -> None:
    """Fails if a budget is not kept."""
    from highwater import load
    from highwater._highwater import parse_bytes

    allowed = marker.kwargs.get("growth")
    if allowed is not None and growth > parse_bytes(str(allowed)):
        what = f"the test leaves {growth:,} bytes of GPU memory behind, {allowed} allowed"
        pytest.fail(f"{what}\n\n{_report(written)}", pytrace=False)
    budgets = {name: marker.kwargs[name] for name in BUDGETS if marker.kwargs.get(name) is not None}
    if not budgets:
        return
    if written is None:
        pytest.fail("the test could not be recorded, so its budgets could not be checked", pytrace=False)
    snapshot = load(written)
    # A test that allocates nothing keeps every budget.
    if not snapshot.devices:
        return
    checked = snapshot.check(**budgets)
    if not checked:
        pytest.fail(f"{checked.text}\n{snapshot.text}", pytrace=False)


def _cycles(reports: list[Report], allowed: int) -> str:
    from highwater.cycles import count

    found = count(reports)
    what = f"the test leaves {found:,} reference cycle{'s' if found != 1 else ''} with tensors behind, {allowed} allowed"
    return "\n".join([what, "", *(report.text for report in reports)])


def _report(written: Path | None) -> str:
    from highwater import load

    return load(written).text if written is not None else "the test could not be recorded"
