"""The null GPU's library in this process."""

from __future__ import annotations

import ctypes
import functools
import struct
from collections.abc import Callable

from highwater_dryrun import settings

_CRASHED = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p)


@functools.lru_cache(maxsize=None)
def library() -> ctypes.CDLL:
    """The library, with the types of its functions."""
    core = ctypes.CDLL(settings.get().core)
    core.highwater_nullgpu_unknown_reads.restype = ctypes.c_uint64
    core.highwater_nullgpu_unknown_reads.argtypes = []
    core.highwater_nullgpu_answer_reads.restype = None
    core.highwater_nullgpu_answer_reads.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
    core.highwater_nullgpu_write_trace.restype = None
    core.highwater_nullgpu_write_trace.argtypes = []
    core.highwater_nullgpu_when_crashed.restype = None
    core.highwater_nullgpu_when_crashed.argtypes = [_CRASHED]
    number, size, text = ctypes.c_uint64, ctypes.c_size_t, ctypes.c_char_p
    for name, result, arguments in (
        ("note", None, [size, size, size]),
        ("known", ctypes.c_int, [size, size, size]),
        ("here", None, [ctypes.c_char_p, size]),
        ("next_result", number, []),
        ("wait_for_results", ctypes.c_int, [number, number]),
        ("wait_at", ctypes.c_int, [size, size]),
        ("failure", ctypes.c_char_p, []),
        ("waited_for", ctypes.c_char_p, []),
        ("host_calls", ctypes.c_int64, [text, size, ctypes.c_uint32, ctypes.c_uint32, text, size, ctypes.c_int32, number, ctypes.c_int32]),
        ("host_waits", None, [text, size, ctypes.c_int64, ctypes.c_int32]),
        ("is_rank", None, [ctypes.c_int32, ctypes.c_int32]),
        ("timing_decides", ctypes.c_int, []),
        ("has_stepped", None, []),
        ("convolutions_estimated", ctypes.c_int, []),
        ("read_python", None, [ctypes.c_int]),
        ("driver", ctypes.c_char_p, []),
    ):
        function = getattr(core, f"highwater_nullgpu_{name}")
        function.restype, function.argtypes = result, arguments
    return core


def answer_reads(answers: "list[bytes]") -> None:
    """Has the reads of a device's memory that follow in this thread give these bytes, one after the other; no more than these."""
    packed = b"".join(struct.pack("=Q", len(answer)) + answer for answer in answers)
    library().highwater_nullgpu_answer_reads(packed, len(packed))


def number(value: int) -> bytes:
    """An answer to a read of 32 or 64 bits."""
    return struct.pack("=q", value)


_kept: "list[object]" = []


def when_crashed(then: Callable[[int, str], None]) -> None:
    """Has ``then`` called with the signal and the last function of CUDA that was called, should this process crash."""
    callback = _CRASHED(lambda signal, last: then(signal, (last or b"").decode(errors="replace")))
    _kept.append(callback)
    library().highwater_nullgpu_when_crashed(callback)
