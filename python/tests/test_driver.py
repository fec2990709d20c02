"""The recording of the driver, with a torch and a native half that are made up; and with the real half where there is no driver."""

from __future__ import annotations

import json
import pickle
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import highwater
import pytest
from fake_torch import FakeTorch
from highwater import _driver


class FakeNative:
    """Stands in for the native half, and notes what is asked of it."""

    def __init__(self) -> None:
        self.calls: list[Any] = []
        self.refusal: Exception | None = None

    def driver_start(self, *arguments: Any) -> None:
        if self.refusal is not None:
            raise self.refusal
        self.calls.append(("start", *arguments))

    def driver_mark(self, name: str, nvml: list[tuple[int, int]]) -> None:
        self.calls.append(("mark", name, nvml))

    def driver_pause(self, why: str) -> None:
        self.calls.append(("pause", why))

    def driver_json(self) -> str | None:
        return json.dumps({"format": "highwater-driver", "version": 1, "kinds": [], "events": {}})

    def driver_stop(self) -> None:
        self.calls.append(("stop",))


class FakeOwn:
    """Stands in for NVML."""

    def used_on(self, index: int) -> int | None:
        return 1000 + index

    def bytes_at(self, index: int) -> int | None:
        return 500 + index


@pytest.fixture
def native(torch: FakeTorch, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeNative]:
    fake = FakeNative()
    monkeypatch.setattr(_driver, "_highwater", fake)
    monkeypatch.setattr(_driver, "OwnMemory", FakeOwn)
    monkeypatch.setattr(_driver, "_is_hooked", False)
    monkeypatch.setattr(_driver, "_users", 0)
    monkeypatch.setattr("atexit.register", lambda function: None)
    monkeypatch.delenv("HIGHWATER_DRIVER", raising=False)
    yield fake


def names(native: FakeNative) -> list[str]:
    return [call[0] for call in native.calls]


def test_the_driver_is_recorded_before_cuda_and_lies_in_the_snapshot(
    torch: FakeTorch, native: FakeNative, tmp_path: Path
) -> None:
    torch.is_initialized = False
    with highwater.record(tmp_path / "run.pickle", driver=True):
        assert names(native) == ["start"], "before CUDA is"
        torch.waiting.pop()()
        highwater.step()
        highwater.step()
    assert names(native) == ["start", "mark", "mark", "mark", "stop"]
    assert native.calls[0][3] == [(0, 500)], "memory that others use"
    # NVML is looked at for the first step and the dump, not for a step right after.
    assert [call[2] for call in native.calls[1:4]] == [[(0, 500)], [], [(0, 500)]]
    snapshot = pickle.loads((tmp_path / "run.pickle").read_bytes())
    assert json.loads(snapshot[_driver.KEY])["format"] == "highwater-driver"


def test_a_context_that_is_there_is_this_process(torch: FakeTorch, native: FakeNative, tmp_path: Path) -> None:
    with highwater.record(tmp_path / "run.pickle", driver=True):
        pass
    assert native.calls[0][3] == [(0, 530)], "PyTorch's 30 bytes of segments are told by its own history"


def test_without_being_asked_nothing_is_started(torch: FakeTorch, native: FakeNative, tmp_path: Path) -> None:
    with highwater.record(tmp_path / "run.pickle"):
        highwater.step()
    assert native.calls == []


def test_the_environment_asks(torch: FakeTorch, native: FakeNative, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HIGHWATER_DRIVER", "1")
    monkeypatch.setenv("HIGHWATER_DRIVER_ENTRIES", "1000")
    with highwater.record(tmp_path / "run.pickle"):
        pass
    assert native.calls[0][2] == 1000
    native.calls.clear()
    with highwater.record(tmp_path / "run.pickle", driver=False):
        pass
    assert native.calls == []


def test_nested_recorders_share_one(torch: FakeTorch, native: FakeNative, tmp_path: Path) -> None:
    with highwater.record(tmp_path / "outer.pickle", driver=True):
        with highwater.record(tmp_path / "inner.pickle", driver=True):
            pass
        assert "stop" not in names(native)
    assert names(native).count("start") == names(native).count("stop") == 1


def test_a_refusal_is_said_and_the_rest_is_recorded(
    torch: FakeTorch, native: FakeNative, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    native.refusal = RuntimeError("the driver cannot be recorded: another profiler has CUPTI")
    with highwater.record(tmp_path / "run.pickle", driver=True):
        pass
    assert "another profiler has CUPTI; the recording has PyTorch's memory only" in capsys.readouterr().err
    assert _driver.KEY not in pickle.loads((tmp_path / "run.pickle").read_bytes())
    assert names(native) == []


def test_pytorchs_profiler_gets_cupti(
    torch: FakeTorch, native: FakeNative, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    prepared = []
    profiler = types.SimpleNamespace(
        record_function=torch.autograd.profiler.record_function,
        _prepare_profiler=lambda config, activities: prepared.append(activities),
    )
    torch.autograd = types.SimpleNamespace(profiler=profiler)
    with highwater.record(tmp_path / "run.pickle", driver=True):
        profiler._prepare_profiler(None, {"ProfilerActivity.CPU"})
        assert "pause" not in names(native)
        profiler._prepare_profiler(None, {"ProfilerActivity.CUDA"})
        assert "pause" in names(native)
    assert len(prepared) == 2
    assert "takes CUPTI" in capsys.readouterr().err


def test_without_a_driver_the_real_half_says_what_is_missing(
    torch: FakeTorch, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_driver, "TOOLKITS", ())
    monkeypatch.setattr(_driver, "PACKAGES", ())
    with highwater.record(tmp_path / "run.pickle", driver=True):
        pass
    said = capsys.readouterr().err
    assert "the driver cannot be recorded" in said
    assert f"wrote {tmp_path / 'run.pickle'}" in said
