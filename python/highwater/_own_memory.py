"""The memory of this process on a GPU, as the driver reports it through NVML, with ctypes because torch does not include NVML."""

from __future__ import annotations

import ctypes
import os
from typing import Any

LIBRARY = "libnvidia-ml.so.1"

NOT_AVAILABLE = 2**64 - 1
"""The driver's value for an unknown size."""

MAX_PROCESSES = 1024


class _Process(ctypes.Structure):
    """``nvmlProcessInfo_t`` of ``nvml.h``, the third version."""

    _fields_ = [
        ("pid", ctypes.c_uint),
        ("bytes", ctypes.c_ulonglong),
        ("gpu_instance", ctypes.c_uint),
        ("compute_instance", ctypes.c_uint),
    ]


class _Memory(ctypes.Structure):
    """``nvmlMemory_v2_t`` of ``nvml.h``."""

    _fields_ = [
        ("version", ctypes.c_uint),
        ("total", ctypes.c_ulonglong),
        ("reserved", ctypes.c_ulonglong),
        ("free", ctypes.c_ulonglong),
        ("used", ctypes.c_ulonglong),
    ]


class OwnMemory:
    """NVML, loaded; raises ``OSError`` if it cannot be."""

    def __init__(self) -> None:
        self._library: Any = ctypes.CDLL(os.environ.get("HIGHWATER_NVML") or LIBRARY)
        if self._library.nvmlInit_v2() != 0:
            raise OSError("the driver does not answer")

    def bytes_on(self, uuid: str) -> int | None:
        """The memory of this process on the GPU of that name; ``None`` if it is not on it, or the driver does not report it."""
        handle = ctypes.c_void_p()
        if self._library.nvmlDeviceGetHandleByUUID(uuid.encode(), ctypes.byref(handle)) != 0:
            return None
        return self._bytes(handle)

    def bytes_at(self, index: int) -> int | None:
        """The same of the GPU of that number."""
        handle = self._at(index)
        return None if handle is None else self._bytes(handle)

    def used_on(self, index: int) -> int | None:
        """The memory of the GPU of that number in use by any process, without the driver's own.

        ``None`` also where the GPU is divided (MIG): CUDA then has an instance for a device, and the number is that of the whole.
        """
        handle = self._at(index)
        if handle is None or self._is_divided(handle):
            return None
        memory = _Memory()
        memory.version = ctypes.sizeof(_Memory) | 2 << 24
        if self._library.nvmlDeviceGetMemoryInfo_v2(handle, ctypes.byref(memory)) != 0:
            return None
        return int(memory.used)

    def _is_divided(self, handle: ctypes.c_void_p) -> bool:
        now, next_time = ctypes.c_uint(), ctypes.c_uint()
        mode = getattr(self._library, "nvmlDeviceGetMigMode", None)
        return mode is not None and mode(handle, ctypes.byref(now), ctypes.byref(next_time)) == 0 and now.value == 1

    def _at(self, index: int) -> ctypes.c_void_p | None:
        handle = ctypes.c_void_p()
        return handle if self._library.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(handle)) == 0 else None

    def _bytes(self, handle: ctypes.c_void_p) -> int | None:
        count = ctypes.c_uint(MAX_PROCESSES)
        processes = (_Process * MAX_PROCESSES)()
        if self._library.nvmlDeviceGetComputeRunningProcesses_v3(handle, ctypes.byref(count), processes) != 0:
            return None
        own = [each.bytes for each in processes[: count.value] if each.pid == os.getpid()]
        return sum(own) if own and NOT_AVAILABLE not in own else None

    def close(self) -> None:
        """Closes NVML."""
        self._library.nvmlShutdown()
