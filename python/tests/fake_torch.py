"""A torch that is made up: as much of it as recording asks for."""

from __future__ import annotations

import contextlib
import types
from collections.abc import Callable, Iterator
from typing import Any


class FakeTorch(types.ModuleType):
    """Stands in for torch, and notes what is asked of it."""

    __version__ = "2.11.0"

    class OutOfMemoryError(RuntimeError):
        """As `torch.OutOfMemoryError`."""

    def __init__(self, snapshot: dict[str, Any]) -> None:
        super().__init__("torch")
        self.calls: list[Any] = []
        self.annotations: list[str] = []
        self.observers: list[Callable[[int, int, int, int], None]] = []
        self.enabled = False
        self.devices = 1
        self.waiting: list[Callable[[], None]] = []
        self.is_initialized = True
        self.backend = "native"
        self.snapshot_dict = snapshot
        self.version = types.SimpleNamespace(cuda="13.0", hip=None)
        self.autograd = types.SimpleNamespace(profiler=types.SimpleNamespace(record_function=self._annotate))
        self.allocated = self.peak = 0
        self.has_context = True
        self._C = types.SimpleNamespace(
            _cuda_memoryStats=self._stats,
            _cuda_resetPeakMemoryStats=self._reset_peak,
            _cuda_hasPrimaryContext=lambda device: self.has_context,
            _cuda_isHistoryEnabled=lambda: self.enabled,
            _cuda_attach_out_of_memory_observer=self.observers.append,
        )
        memory = types.SimpleNamespace(
            _record_memory_history=self._record,
            _snapshot=self._snapshot,
            memory_snapshot=lambda include_traces=True: self.snapshot_dict["segments"],
            get_allocator_backend=lambda: self.backend,
        )
        self.cuda = types.SimpleNamespace(
            memory=memory,
            OutOfMemoryError=self.OutOfMemoryError,
            device_count=lambda: self.devices,
            is_initialized=lambda: self.is_initialized,
            is_available=lambda: self.devices > 0,
            _lazy_call=self.waiting.append,
            memory_allocated=lambda device: 10,
            max_memory_allocated=lambda device: 20,
            memory_reserved=lambda device: 30,
            max_memory_reserved=lambda device: 40,
            synchronize=lambda: None,
            get_device_properties=lambda device: types.SimpleNamespace(uuid="0000"),
        )

    def allocate(self, size: int) -> None:
        """As a tensor that comes, or goes if its size is negative."""
        self.allocated += size
        self.peak = max(self.peak, self.allocated)

    def _stats(self, device: int) -> dict[str, Any]:
        def both(factor: int) -> dict[str, Any]:
            return {"all": {"current": factor * self.allocated, "peak": factor * self.peak}}

        return {"num_ooms": 0, "allocated_bytes": both(1), "reserved_bytes": both(2)}

    def _reset_peak(self, device: int) -> None:
        self.peak = self.allocated

    def initialize(self) -> None:
        """As the first use of the GPU."""
        self.is_initialized = True
        for call in self.waiting:
            call()

    def fail(self) -> None:
        """As a request that fails."""
        for observer in self.observers:
            observer(0, 512, 2**30, 0)
        raise self.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")

    def _record(
        self,
        enabled: str | None = "all",
        context: str | None = "all",
        stacks: str = "all",
        max_entries: int = 2**63,
        device: int | None = None,
        clear_history: bool = False,
        global_record_annotations: bool = False,
    ) -> None:
        self.enabled = enabled is not None
        self.calls.append({"enabled": enabled, "context": context, "stacks": stacks, "max_entries": max_entries})

    def _snapshot(self) -> dict[str, Any]:
        return self.snapshot_dict

    @contextlib.contextmanager
    def _annotate(self, name: str) -> Iterator[None]:
        self.annotations.append(name)
        yield
