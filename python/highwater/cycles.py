"""Finds tensors that only the garbage collector can free.

    >>> import highwater
    >>> with highwater.cycles.watch():
    ...     train()

Objects that refer to each other in a cycle are not freed after their last use, but when Python's garbage collector happens to run.
If they hold tensors, GPU memory accumulates until then. This module finds the tensors when the collector does, and shows the reference
that closes the cycle and the path to the tensor.

Importing this module never imports torch.
"""

from __future__ import annotations

import contextlib
import gc
import logging
import sys
import time
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any

from highwater._collector import Collection, collector
from highwater._cycle_report import Cycle, Kept, Kind, Report, examine
from highwater._references import Step

__all__ = ["Cycle", "CyclesFound", "Kept", "Kind", "Report", "Step", "Watch", "check", "find", "watch"]

_logger = logging.getLogger("highwater.cycles")

_KINDS = 1000
"""Kinds of cycles that the log distinguishes."""


class CyclesFound(AssertionError):
    """Tensors were left to the garbage collector.

    Attributes
    ----------
    reports
        One report for each collection that found tensors.
    """

    def __init__(self, reports: list[Report]) -> None:
        super().__init__("\n".join(report.text for report in reports))
        self.reports = reports


class Watch:
    """A watch over the garbage collector; :func:`watch` makes it.

    It begins when it is made, and ends with :meth:`stop` or with its ``with`` block.

    Attributes
    ----------
    found
        The number of tensors found so far.
    """

    def __init__(
        self,
        on_cycle: Callable[[Report], object] | None,
        device: str,
        tensor_type: type | None,
        is_logging: bool,
    ) -> None:
        if tensor_type is not None and not tensor_type.__weakrefoffset__:
            raise TypeError(f"`{tensor_type.__name__}` allows no weak references, by which garbage is recognised")
        self.found = 0
        self._on_cycle = on_cycle
        self._device = device
        self._tensor_type = tensor_type
        self._is_logging = is_logging
        self._kinds: dict[tuple[str, ...], int] = {}
        self._is_active = True
        collector.add(self)

    def stop(self) -> None:
        """Ends the watch, after reporting all finds so far."""
        if self._is_active:
            self._is_active = False
            collector.remove(self)

    def __enter__(self) -> Watch:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        self.stop()

    def __repr__(self) -> str:
        state = "active" if self._is_active else "stopped"
        return f"<highwater.cycles.Watch, {state}, {self.found:,} tensors found>"

    def types(self) -> list[type]:
        """The types of tensors that there are now."""
        base = self._tensor_type or getattr(sys.modules.get("torch"), "Tensor", None)
        return [] if base is None else _with_subclasses(base)

    def wants(self, tensor: Any) -> bool:
        """Whether a tensor is on the device that is watched."""
        if type(tensor).__name__ == "FakeTensor" and type(tensor).__module__.startswith("torch."):
            # What torch.compile traces with: it has a device, and no memory.
            return False
        if self._device == "any":
            return True
        try:
            with _plain_tensors():
                device = str(tensor.device)
            return self._device in (device, device.partition(":")[0])
        except Exception:
            # A tensor class that does not say where it is.
            return False

    def examine(self, collection: Collection) -> Callable[[], None]:
        """Examines garbage; returns the function that reports it."""
        kinds = {id(kind) for kind in self.types()}
        seen = collection.seen
        tensors = [
            obj for obj in collection.garbage if id(type(obj)) in kinds and id(obj) not in seen and self.wants(obj)
        ]
        lost = collection.dead - len(tensors)
        waited = None if collection.since is None else time.monotonic() - collection.since
        with _plain_tensors():
            report = examine(collection.garbage, tensors, lost, collection.generation, waited)
        self.found += report.tensors + report.lost
        return lambda: self._report(report)

    def _report(self, report: Report) -> None:
        if self._is_logging:
            self._log(report)
        if self._on_cycle is not None:
            self._on_cycle(report)

    def _log(self, report: Report) -> None:
        """A kind of cycle is described once; a repetition is one line."""
        kinds = {cycle.signature for cycle in report.cycles} or {("lost",)}
        known = kinds & self._kinds.keys()
        for kind in kinds:
            if kind in self._kinds or len(self._kinds) < _KINDS:
                self._kinds[kind] = self._kinds.get(kind, 0) + 1
        if len(known) == len(kinds):
            _logger.info("%s; as before", report.headline)
        else:
            _logger.warning("%s", report.text)


def watch(
    on_cycle: Callable[[Report], object] | None = None,
    *,
    device: str = "cuda",
    tensor_type: type | None = None,
    log: bool = True,
) -> Watch:
    """Watches for tensors that only the garbage collector can free.

    Parameters
    ----------
    on_cycle
        Called with a :class:`Report` after each collection that freed tensors, in a separate thread, or in ``stop()``. Its
        exceptions go to :data:`threading.excepthook`.
    device
        Which tensors: a kind of device (``"cuda"``, ``"cpu"``), one device (``"cuda:1"``), or ``"any"``.
    tensor_type
        The class of tensors, if not ``torch.Tensor``: a class with ``untyped_storage()``, including its subclasses.
    log
        Whether to write to the logger ``highwater.cycles``: a new kind of cycle as a warning, a known one as a line of level
        ``INFO``.

    Returns
    -------
    Watch
        It has ``stop()``, and is a context manager.

    Notes
    -----
    A second collection frees the tensors right after the first, before the program calls its next function.
    """
    return Watch(on_cycle, device, tensor_type, log)


def find(*, device: str = "cuda", tensor_type: type | None = None) -> Report:
    """Collects garbage now, and reports the tensors in it.

    Parameters
    ----------
    device, tensor_type
        As for :func:`watch`.

    Returns
    -------
    Report
        False if there are none. The tensors are freed.
    """
    reports: list[Report] = []
    with watch(reports.append, device=device, tensor_type=tensor_type, log=False):
        gc.collect()
    return max(reports, key=lambda report: report.tensors, default=Report())


@contextlib.contextmanager
def check(allowed: int = 0, *, device: str = "cuda", tensor_type: type | None = None) -> Iterator[list[Report]]:
    """Checks that a block leaves no tensors to the garbage collector.

    Parameters
    ----------
    allowed
        The allowed number of cycles with tensors.
    device, tensor_type
        As for :func:`watch`.

    Yields
    ------
    list[Report]
        The reports so far.

    Raises
    ------
    CyclesFound
        An ``AssertionError``, at the end of the block, if there are more cycles than allowed. An exception of the block itself
        takes precedence.
    """
    # What was left before is not this block's.
    gc.collect()
    reports: list[Report] = []
    with watch(reports.append, device=device, tensor_type=tensor_type, log=False):
        yield reports
        gc.collect()
    if count(reports) > allowed:
        raise CyclesFound(reports)


def count(reports: list[Report]) -> int:
    """The number of cycles; a tensor whose cycle is unknown counts as one."""
    return sum(len(report.cycles) + report.lost for report in reports)


def _with_subclasses(base: type) -> list[type]:
    found = [base]
    for kind in found:
        found.extend(type.__subclasses__(kind))
    return found


def _plain_tensors() -> contextlib.AbstractContextManager[object]:
    """Bypasses tensor subclasses: none of their code may run during a collection."""
    native = getattr(sys.modules.get("torch"), "_C", None)
    guard = getattr(native, "DisableTorchFunctionSubclass", None) or getattr(native, "DisableTorchFunction", None)
    return contextlib.nullcontext() if guard is None else guard()
