"""What `torch.profiler` writes: files of the repository, and fresh ones where torch is installed."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import highwater
import pytest

PROFILES = Path(__file__).parents[2] / "testdata" / "profiler"

# In the order of PyTorch's file; `autograd_detail` counts as temporary.
CATEGORIES = (
    "parameter",
    "optimizer_state",
    "input",
    "temporary",
    "activation",
    "gradient",
    "temporary",
    "unknown",
)


def highest(times_and_sizes: list[Any]) -> dict[str, int]:
    """The categories where their sum is highest in PyTorch's own file."""
    row = max(times_and_sizes[1], key=sum)
    sums = dict.fromkeys(CATEGORIES, 0)
    for name, size in zip(CATEGORIES, row[1:], strict=True):
        sums[name] += size
    return sums


def check(plain: Path, raw: Path, trace: Path) -> None:
    """The three files of one profile, as `load` gives them."""
    want = highest(json.loads(gzip.decompress(plain.read_bytes())))
    report = highwater.load(plain).report()
    at_peak = report["devices"][0]["at_peak"]
    assert at_peak["allocated_bytes"] == sum(want.values())
    assert {name: at_peak["categories"][name] for name in want} == want
    assert report["source"]["profile"] == "memory_timeline"

    events = highwater.load(raw).report()
    assert events["source"]["profile"] == "memory_timeline_raw"
    assert events["devices"][0]["end"] == report["devices"][0]["end"]
    assert events["devices"][0]["peak"]["allocated_bytes"] >= sum(want.values())

    snapshot = highwater.load(trace)
    assert snapshot.report()["source"]["profile"] == "chrome_trace"
    assert set(snapshot.timeline(0)["action"].tolist()) == {"alloc", "free_requested", "free_completed"}
    with pytest.raises(highwater.SnapshotError, match="nothing to replay"):
        snapshot.simulate()


@pytest.mark.parametrize("name", ["adam", "warm", "cuda"])
def test_files_of_the_repository(name: str) -> None:
    """Those that torch 2.11 wrote."""
    check(*(PROFILES / f"{name}.{form}.json.gz" for form in ("timeline", "timeline.raw", "trace")))


def test_a_trace_of_a_gpu_has_the_peak_of_memory_stats() -> None:
    """Which the GPU's allocator counted while the profile ran."""
    truth = json.loads((PROFILES / "cuda.truth.json").read_text())
    [device] = highwater.load(PROFILES / "cuda.trace.json.gz").report()["devices"]
    assert device["peak"]["allocated_bytes"] == truth["peak"]


def test_fresh_files(tmp_path: Path) -> None:
    """Those that the installed torch writes."""
    torch = pytest.importorskip("torch")
    profiler = pytest.importorskip("torch.profiler")
    model = torch.nn.Sequential(torch.nn.Linear(24, 48), torch.nn.ReLU(), torch.nn.Linear(48, 4))
    optimizer = torch.optim.Adam(model.parameters())
    with profiler.profile(
        activities=[profiler.ProfilerActivity.CPU], profile_memory=True, record_shapes=True, with_stack=True
    ) as prof:
        for _ in range(3):
            loss = model(torch.randn(8, 24)).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
    if not hasattr(prof, "export_memory_timeline"):
        pytest.skip("this torch exports no memory timeline any more")
    plain, raw, trace = (tmp_path / name for name in ("t.json.gz", "t.raw.json.gz", "trace.json.gz"))
    prof.export_memory_timeline(str(plain), device="cpu")
    prof.export_memory_timeline(str(raw), device="cpu")
    prof.export_chrome_trace(str(trace))
    check(plain, raw, trace)


def test_a_picture_says_what_to_export_instead(tmp_path: Path) -> None:
    """The HTML page has no numbers in it."""
    page = tmp_path / "timeline.html"
    title = '<html>\n<head><meta charset="utf-8" /><title>GPU Memory Timeline HTML</title></head>\n'
    page.write_text(title + "<body>\n  <img src='data:image/png;base64,AA=='>\n</body>\n</html>")
    with pytest.raises(highwater.SnapshotError) as caught:
        highwater.load(page)
    assert caught.value.hint is not None
    assert "raw.json.gz" in caught.value.hint
