"""All uses of PyTorch by recording. Torch is imported at the first use, never before."""

from __future__ import annotations

import importlib
import inspect
import sys
import time
from collections.abc import Callable
from typing import Any

ASYNCHRONOUS = "cudaMallocAsync"
"""The driver's own allocator, of which PyTorch keeps no history."""


class Unavailable(Exception):
    """Why nothing can be recorded, as a sentence."""


def torch() -> Any:
    """The module."""
    try:
        return importlib.import_module("torch")
    except ImportError as error:
        raise Unavailable("torch is not installed") from error


def check_cuda() -> None:
    """Raises :class:`Unavailable` if there is no GPU that this torch can use. Does not touch CUDA: a fork stays possible."""
    module = torch()
    version = getattr(module.version, "cuda", None) or getattr(module.version, "hip", None)
    if version is None:
        raise Unavailable(f"torch {module.__version__} is built without CUDA")
    if module.cuda.device_count() == 0:
        raise Unavailable("torch finds no GPU")


def when_initialized(begin: Callable[[], None]) -> None:
    """Calls ``begin`` as soon as CUDA is initialised: before that, nothing can be allocated."""
    cuda = torch().cuda
    if cuda.is_initialized():
        begin()
    else:
        cuda._lazy_call(begin)


def is_asynchronous() -> bool:
    """Whether the driver's own allocator serves the program."""
    backend = getattr(torch().cuda.memory, "get_allocator_backend", None)
    return backend is not None and backend() == ASYNCHRONOUS


def is_recording() -> bool:
    """Whether a history is being kept already."""
    asked = getattr(torch()._C, "_cuda_isHistoryEnabled", None)
    return asked is not None and bool(asked())


def start_history(max_entries: int, stacks: str | None, frees: bool) -> list[str]:
    """Starts a history; returns the features that this torch lacks.

    Stacks are not captured at frees unless ``frees`` is set: torch 2.11 loses an exception on its way from Python
    through C++, such as the one that ends a recomputation under ``torch.utils.checkpoint``, if a tensor that goes with it captures
    one.
    """
    start = torch().cuda.memory._record_memory_history
    wanted: dict[str, Any] = {
        "enabled": "all",
        "context": ("all" if frees else "alloc") if stacks else None,
        "stacks": stacks or "python",
        "max_entries": max_entries,
        "clear_history": True,
        "global_record_annotations": True,
    }
    known = inspect.signature(start).parameters
    if "max_entries" not in known:
        # torch 2.0
        start(True, trace_alloc_max_entries=max_entries, trace_alloc_record_context=stacks is not None)
        return ["the kind of stacks and annotations"]
    start(**{name: value for name, value in wanted.items() if name in known})
    missing = {"stacks": "the kind of stacks", "global_record_annotations": "annotations, so iterations are guessed"}
    return [what for name, what in missing.items() if name not in known]


def stop_history() -> None:
    """Ends the history."""
    stop = torch().cuda.memory._record_memory_history
    known = inspect.signature(stop).parameters
    stop(False if "max_entries" not in known else None)


def snapshot() -> Any:
    """The snapshot, with its history."""
    return torch().cuda.memory._snapshot()


def bare_snapshot() -> Any:
    """The snapshot without a history, which needs little memory."""
    memory = torch().cuda.memory
    known = inspect.signature(memory.memory_snapshot).parameters
    options = {"include_traces": False} if "include_traces" in known else {}
    return {"segments": memory.memory_snapshot(**options), "device_traces": []}


def attach_oom_observer(observer: Callable[[int, int, int, int], None]) -> bool:
    """Has ``observer`` called when a request fails; false if this torch cannot. There is no way to detach it."""
    attach = getattr(torch()._C, "_cuda_attach_out_of_memory_observer", None) or getattr(
        torch()._C, "_cuda_attachOutOfMemoryObserver", None
    )
    if attach is None:
        return False
    attach(observer)
    return True


def is_out_of_memory(error: BaseException | None) -> bool:
    """Whether an exception, or its cause, says that the GPU's memory ran out."""
    module = sys.modules.get("torch")
    own = getattr(module, "OutOfMemoryError", None) or getattr(
        getattr(module, "cuda", None), "OutOfMemoryError", None
    )
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        if own is not None and isinstance(error, own):
            return True
        seen.add(id(error))
        error = error.__cause__ or error.__context__
    return False


def annotation(name: str) -> Any:
    """A scope that PyTorch notes in the history."""
    return torch().autograd.profiler.record_function(name)


def _distributed() -> Any:
    """``torch.distributed``, if this process has joined a group."""
    distributed = getattr(sys.modules.get("torch"), "distributed", None)
    return distributed if distributed is not None and distributed.is_available() and distributed.is_initialized() else None


def rank() -> int | None:
    """This process's rank, if it has one."""
    distributed = _distributed()
    if distributed is not None:
        return int(distributed.get_rank())
    from highwater._job import place

    return place().rank


def world_size() -> int | None:
    """Ranks of the group that this process has joined."""
    distributed = _distributed()
    return None if distributed is None else int(distributed.get_world_size())


def devices() -> list[dict[str, Any]]:
    """The devices on which this process has memory: their names, their size, and what others use of them."""
    found = []
    try:
        cuda = torch().cuda
        for device in range(cuda.device_count()):
            reserved = cuda.memory_reserved(device)
            if reserved == 0:
                continue
            free, total = cuda.mem_get_info(device)
            outside = max(0, total - free - reserved)
            found.append(
                {
                    "device": device,
                    "name": str(cuda.get_device_name(device)),
                    "total_bytes": total,
                    "outside_bytes": outside,
                }
            )
    except Exception:
        # A card that does not answer, or a torch that is not asked so.
        return found
    return found


def totals() -> list[dict[str, int]]:
    """The memory of each device now: the only information of an allocator that keeps no history."""
    cuda = torch().cuda
    return [
        {
            "device": device,
            "allocated_bytes": cuda.memory_allocated(device),
            "peak_allocated_bytes": cuda.max_memory_allocated(device),
            "reserved_bytes": cuda.memory_reserved(device),
            "peak_reserved_bytes": cuda.max_memory_reserved(device),
        }
        for device in range(cuda.device_count())
    ]


def now_us() -> int:
    """Microseconds since the Unix epoch, as PyTorch counts them."""
    return time.time_ns() // 1000


def metadata_setter() -> Callable[[str], None] | None:
    """The function that labels later allocations; ``None`` without a GPU or if torch cannot."""
    try:
        check_cuda()
    except Unavailable:
        return lambda _: None
    setter: Callable[[str], None] | None = getattr(torch().cuda.memory, "_set_memory_metadata", None)
    return setter if getattr(torch()._C, "_cuda_setMemoryMetadata", None) is not None else None
