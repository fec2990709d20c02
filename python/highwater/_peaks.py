"""Peaks for several who look, of which PyTorch keeps but one.

``highwater top`` wants the peak since it last looked, and a program wants its own since it last reset it. So PyTorch's peak is
reset at every look, and what it was is kept for everybody else: for other watchers, and for the program, whose
``torch.cuda.max_memory_allocated()`` stays what it would have been.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from highwater import _torch

PROGRAM = ""
"""The program itself, among those who look."""

MAX_WATCHERS = 16
"""The one that looked longest ago is forgotten; its next look is its first again."""

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
    """Who has looked at which device, and the peaks that each has not seen."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._unseen: dict[str, dict[int, Stats]] = {PROGRAM: {}}
        self._read: Callable[[int], Stats] | None = None
        self._reset: Callable[[int], None] | None = None

    def look(self, watcher: str, device: int) -> Stats:
        """The statistics of a device, with peaks since this watcher last looked; since the program began the first time."""
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
        """Stands in for what reads and resets the statistics, from the first look on."""
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
