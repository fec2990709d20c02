"""What the tests have in common: the recordings of the repository, and a torch that is made up."""

from __future__ import annotations

import gc
import gzip
import pickle
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cyclic import is_hooked, tensors
from fake_torch import FakeTorch

pytest_plugins = ["pytester"]

RECORDINGS = Path(__file__).parents[2] / "testdata" / "recordings"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that need a GPU say so where there is none."""
    if not _has_cuda():
        skip = pytest.mark.skip(reason="needs a GPU")
        for item in items:
            if item.get_closest_marker("cuda") is not None:
                item.add_marker(skip)


def _has_cuda() -> bool:
    try:
        import torch
    except (ImportError, OSError, ValueError):
        # Not there, or without NVIDIA's libraries.
        return False
    return bool(torch.cuda.is_available())


def recording(name: str) -> Path:
    """The file of a recording."""
    return RECORDINGS / f"{name}.pickle.gz"


def unpickled(name: str) -> dict[str, Any]:
    """What CPython makes of a recording."""
    with gzip.open(recording(name), "rb") as file:
        return pickle.load(file)  # type: ignore[no-any-return]


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeTorch]:
    """A made-up torch with a GPU, whose snapshots are those of a recording."""
    from highwater import _notice, _oom, _record

    fake = FakeTorch(unpickled("linear_forward"))
    monkeypatch.setitem(sys.modules, "torch", fake)
    monkeypatch.setattr(_oom, "_is_hooked", False)
    monkeypatch.setattr(_oom, "_dumped", None)
    monkeypatch.setattr(_oom, "_observed", [])
    monkeypatch.setattr(_record, "_active", [])
    monkeypatch.setattr(_notice, "_said", set())
    monkeypatch.setattr(sys, "excepthook", sys.__excepthook__)
    monkeypatch.delenv("RANK", raising=False)
    # Where a test does not look, nobody shall answer.
    monkeypatch.setenv("HIGHWATER_ANSWER", "0")
    yield fake


@pytest.fixture
def collector_as_it_was() -> Iterator[None]:
    """A test of reference cycles begins without garbage, and leaves the collector as it was."""
    gc.collect()
    yield
    assert (gc.get_debug(), gc.garbage, sys.getprofile()) == (0, [], None)
    assert not is_hooked()
    gc.collect()
    assert tensors() == 0


@pytest.fixture
def collector_off() -> Iterator[None]:
    """It runs when it is asked."""
    gc.disable()
    yield
    gc.enable()
