"""The recording of the CUDA driver: memory that PyTorch's allocator does not know of.

The native half records the driver's calls by CUPTI. Here it is started before CUDA is, told of moments, and put into the snapshot.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib.util
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from highwater import _highwater, _torch
from highwater._notice import notice
from highwater._own_memory import OwnMemory

VARIABLE = "HIGHWATER_DRIVER"
"""``1`` in the environment has every recording include the driver."""

KEY = "highwater_driver"
"""The key of the snapshot under which the recording is."""

PACKAGES = ("nvidia.cu13", "nvidia.cuda_cupti", "nvidia.cu12")
"""Packages of the wheels that bring CUPTI."""

TOOLKITS = ("/usr/local/cuda/extras/CUPTI/lib64", "/usr/local/cuda/lib64")

LOOK_SECS = 0.25
"""Seconds between two looks at NVML, at least."""

LOOKS_PART = 200
"""A look at NVML takes one part in so many of the program's time, at most."""

_lock = threading.RLock()
_users = 0
_look = 0.0
_pause = LOOK_SECS
_own: OwnMemory | None = None
_is_hooked = False


def is_wanted(asked: bool | None) -> bool:
    """Whether a recording is to include the driver: as its caller says, or else the environment."""
    return os.environ.get(VARIABLE) == "1" if asked is None else asked


def begin() -> bool:
    """Records the driver from now on, until as many ask to :func:`end` as have asked to begin. Says if it cannot."""
    global _users, _own, _look, _pause
    with _lock:
        if _users == 0:
            _look, _pause = 0.0, LOOK_SECS
            try:
                with contextlib.suppress(OSError, AttributeError):
                    _own = OwnMemory()
                _start()
            except Exception as error:
                problem, hint_begins, hint = str(error).partition("\nhint: ")
                notice(f"{problem}; the recording has PyTorch's memory only{hint_begins}{hint}")
                return False
        _users += 1
        return True


def end() -> None:
    """Ends :func:`begin`."""
    global _users
    with _lock:
        _users = max(_users - 1, 0)
        if _users == 0:
            _highwater.driver_stop()


def mark(name: str) -> None:
    """Notes a moment, with NVML's figure if the last one is long enough ago. Without a recording it does nothing."""
    global _look, _pause
    if _users == 0:
        return
    now = time.monotonic()
    nvml: list[tuple[int, int]] = []
    if now >= _look or name != "step":
        nvml = _used_by_this()
        _pause = max(LOOK_SECS, (time.monotonic() - now) * LOOKS_PART)
        _look = time.monotonic() + _pause
    _highwater.driver_mark(name, nvml)


def put_into(snapshot: Any) -> None:
    """Adds the recording to a snapshot."""
    if _users == 0 or not isinstance(snapshot, dict):
        return
    mark("dump")
    recorded = _highwater.driver_json()
    if recorded is not None:
        snapshot[KEY] = recorded


def _start() -> None:
    cuda = _torch.torch().cuda
    if cuda.is_initialized():
        notice("CUDA was in use before the driver's recording began: earlier memory other than PyTorch's counts as the context")
    if _is_shared():
        notice(
            "CUDA's Multi-Process Service is on: memory that other clients allocate during a measured call counts as part of that call, "
            "and if this process is the first client, its context includes the server's memory"
        )
    _highwater.driver_start(
        _directories(),
        int(os.environ.get("HIGHWATER_DRIVER_ENTRIES") or 0),
        _used_before(),
        threading.current_thread() is threading.main_thread(),
        getattr(sys, "_is_gil_enabled", lambda: True)(),
    )
    atexit.register(_highwater.driver_stop)
    _yield_to_profiler()


def _is_shared() -> bool:
    """Whether this process would be a client of CUDA's Multi-Process Service: its server has a pipe in a known directory."""
    return Path(os.environ.get("CUDA_MPS_PIPE_DIRECTORY") or "/tmp/nvidia-mps", "control").exists()


def _directories() -> list[Path]:
    """Where CUPTI may be."""
    found = []
    for package in PACKAGES:
        with contextlib.suppress(ImportError, ValueError):
            spec = importlib.util.find_spec(package)
            for place in (spec.submodule_search_locations or []) if spec else []:
                found.append(Path(place, "lib"))
    return [*found, *map(Path, TOOLKITS)]


def _used_before() -> list[tuple[int, int]]:
    """Memory in use on each device by other processes, plus PyTorch's segments of this one."""
    cuda = _torch.torch().cuda
    found = []
    for device, index in _indexes():
        used = _own.used_on(index) if _own is not None else None
        if used is None:
            continue
        own = _own.bytes_at(index) if _own is not None else None
        if own is not None:
            # A context is there already, as after `torch.cuda.set_device`.
            segments = cuda.memory_reserved(device) if cuda.is_initialized() else 0
            used -= max(own - segments, 0)
        found.append((device, max(used, 0)))
    return found


def _used_by_this() -> list[tuple[int, int]]:
    """NVML's figure of this process on each device."""
    found = []
    for device, index in _indexes():
        used = _own.bytes_at(index) if _own is not None else None
        if used is not None:
            found.append((device, used))
    return found


def _indexes() -> list[tuple[int, int]]:
    """The devices that this process sees, by CUDA's and by NVML's number. Does not touch CUDA."""
    cuda = _torch.torch().cuda
    number: Callable[[int], int] = getattr(cuda, "_get_nvml_device_index", lambda device: device)
    found = []
    for device in range(cuda.device_count()):
        with contextlib.suppress(Exception):
            found.append((device, number(device)))
    return found


def _yield_to_profiler() -> None:
    """Lets PyTorch's profiler have CUPTI, which serves one at a time: the driver's recording pauses from there on."""
    global _is_hooked
    if _is_hooked:
        return
    _is_hooked = True
    with contextlib.suppress(Exception):
        profiler = _torch.torch().autograd.profiler
        prepare = profiler._prepare_profiler

        def yielding(config: Any, activities: Any) -> Any:
            if _users > 0 and any("CUDA" in str(activity) for activity in activities):
                _highwater.driver_pause("PyTorch's profiler took CUPTI")
                notice("PyTorch's profiler takes CUPTI, which serves one at a time: the driver is recorded up to here")
            return prepare(config, activities)

        profiler._prepare_profiler = yielding


def _after_fork() -> None:
    """The parent's recording is not the child's."""
    global _lock, _users
    _lock = threading.RLock()
    _users = 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
