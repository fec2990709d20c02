"""Peaks for several watchers, where PyTorch keeps only one.

``highwater top`` needs the peak since its last sample, and a program its own since it last reset it. So PyTorch's peak is reset
at every sample, and the old value is kept for all others: for other watchers, and for the program, whose
``torch.cuda.max_memory_allocated()`` returns the same as without watchers.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from highwater import _torch

PROGRAM = ""
"""The program itself, as one of the watchers."""

MAX_WATCHERS = 16
"""The watcher whose last sample is the oldest is forgotten; its next sample counts as its first."""

READS = ("_cuda_memoryStats", "_accelerator_getDeviceStats")
RESETS = ("_cuda_resetPeakMemoryStats", "_accelerator_resetPeakStats")

Stats = dict[str, Any]


def kept(stats: Stats, before: Stats | None) -> Stats:
    """The peaks among statistics, each the larger of now and before: as nested as they are."""
    peaks: Stats = {}
    for key, value in stats.items():
        if isinstance(value, dict):
            inner = kept(value, (before or {}).get(key))
            if inner:
                peaks[key] = inner
        elif key == "peak":
            peaks[key] = max(value, (before or {}).get(key, 0))
    return peaks


def merged(stats: Stats, peaks: Stats | None) -> Stats:
    """The statistics with these peaks, where they are larger."""
    if not peaks:
        return stats
    return {
        key: merged(value, peaks.get(key))
        if isinstance(value, dict)
        else max(value, peaks.get("peak", 0))
        if key == "peak"
        else value
        for key, value in stats.items()
    }


class Peaks:
    """The watchers of each device, and the peaks that each has not seen."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._unseen: dict[str, dict[int, Stats]] = {PROGRAM: {}}
        self._read: Callable[[int], Stats] | None = None
        self._reset: Callable[[int], None] | None = None

    def look(self, watcher: str, device: int) -> Stats:
        """The statistics of a device, with peaks since this watcher's last sample; at the first one, since the start of the
        program."""
        self._install()
        assert self._read is not None and self._reset is not None
        with self._lock:
            is_first = watcher not in self._unseen
            own = self._unseen.pop(watcher, {})
            while len(self._unseen) > MAX_WATCHERS:
                del self._unseen[next(name for name in self._unseen if name != PROGRAM)]
            self._unseen[watcher] = own
            # What another thread allocates and frees between these two calls, microseconds apart, is in nobody's peak.
            stats = self._read(device)
            self._reset(device)
            known = self._unseen[PROGRAM].get(device) if is_first else own.get(device)
            self._keep(stats, device)
            own.pop(device, None)
            return merged(stats, known)

    def after_fork(self) -> None:
        """The thread that held the lock is not in the child."""
        self._lock = threading.Lock()

    def _keep(self, stats: Stats, device: int) -> None:
        for unseen in self._unseen.values():
            unseen[device] = kept(stats, unseen.get(device))

    def _install(self) -> None:
        """Replaces the functions that read and reset the statistics, from the first sample on."""
        if self._read is not None:
            return
        module = _torch.torch()._C
        self._read, self._reset = getattr(module, READS[0]), getattr(module, RESETS[0])
        for name in READS:
            if hasattr(module, name):
                setattr(module, name, self._reader(getattr(module, name)))
        for name in RESETS:
            if hasattr(module, name):
                setattr(module, name, self._resetter(getattr(module, name)))

    def _reader(self, original: Callable[[int], Stats]) -> Callable[[int], Stats]:
        def memory_stats(device: int) -> Stats:
            with self._lock:
                return merged(original(device), self._unseen[PROGRAM].get(device))

        return memory_stats

    def _resetter(self, original: Callable[[int], None]) -> Callable[[int], None]:
        def reset_peak_stats(device: int) -> None:
            with self._lock:
                if self._read is not None:
                    self._keep(self._read(device), device)
                self._unseen[PROGRAM].pop(device, None)
                original(device)

        return reset_peak_stats
