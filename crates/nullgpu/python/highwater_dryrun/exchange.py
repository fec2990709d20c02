"""What ranks give each other: small values, along with what the program sends, gathers and reduces.

The null GPU's NCCL carries the bytes that it knows (`crates/nullgpu-core/src/ranks.rs`), for ranks that were launched; others are taken to
be like this one. It knows few: what was copied from the host last. So it is told what the inputs of a call hold, and asked for what
lies in the outputs when the program waits for them. All of PyTorch's collectives go through the methods of a process group, or through
operators of `_c10d_functional`.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import weakref
from collections.abc import Callable
from typing import Any

import torch

from highwater_dryrun import core, hosts, importing
from highwater_dryrun.hosts import tensors_in
from highwater_dryrun.mirrors import Mirrors, may_be_kept
from highwater_dryrun.reads import Places

_METHODS = (
    "_allgather_base _reduce_scatter_base allgather allgather_coalesced allgather_into_tensor_coalesced allreduce "
    "allreduce_coalesced alltoall alltoall_base barrier broadcast gather recv recv_anysource reduce reduce_scatter "
    "reduce_scatter_tensor_coalesced scatter send monitored_barrier _end_coalescing "
    "all_gather_single all_gather_single_coalesced all_to_all_single reduce_scatter_single reduce_scatter_single_coalesced"
).split()
"""Of a process group, the last ones since PyTorch 2.15. The first argument of each is what it writes, except for `send`."""
_WAITS = ("wait", "synchronize", "result", "block_current_stream")
_BYTES_MAX = 1 << 20
"""As `BYTES_MAX` of crates/nullgpu-core."""
_FUNCTIONAL = ("_c10d_functional", "c10d_functional", "_c10d_functional_autograd")


def begin(mirrors: Mirrors) -> "Exchange":
    """Carries values along, once the program imports :mod:`torch.distributed`."""
    exchange = Exchange(mirrors)
    importing.after("torch.distributed.distributed_c10d", lambda module: exchange.attach(module))
    return exchange


class Exchange:
    """The calls that the program has not waited for, and what they write."""

    def __init__(self, mirrors: Mirrors) -> None:
        self._mirrors = mirrors
        self._library = core.library()
        self._places = Places(torch)
        self._waiting: "weakref.WeakKeyDictionary[Any, _Call]" = weakref.WeakKeyDictionary()
        self._together: "weakref.WeakKeyDictionary[Any, _Call]" = weakref.WeakKeyDictionary()
        """Groups whose calls are made together, and what has been called."""
        self._hosts: "hosts.Hosts | None" = None

    def attach(self, module: Any) -> None:
        """Begins, with :mod:`torch.distributed.distributed_c10d`."""
        native = torch._C._distributed_c10d
        self._hosts = hosts.Hosts(module)
        self._hosts.follow_native(self._say_place)
        for name in _METHODS:
            if hasattr(native.ProcessGroup, name):
                setattr(native.ProcessGroup, name, self._calling(name, getattr(native.ProcessGroup, name)))
        start = native.ProcessGroup._start_coalescing

        def start_coalescing(group: Any, *arguments: Any, **options: Any) -> Any:
            self._together[group] = _Call(self._library.highwater_nullgpu_next_result())
            return start(group, *arguments, **options)

        native.ProcessGroup._start_coalescing = start_coalescing
        for name in _WAITS:
            if hasattr(native.Work, name):
                setattr(native.Work, name, self._waiting_for(getattr(native.Work, name)))

    def functional(self, func: Any, args: Any, kwargs: Any) -> "tuple[bool, Any]":
        """Calls an operator that communicates; whether it is one, and what it gives."""
        packet = getattr(func, "overloadpacket", func)
        space, _, name = str(getattr(packet, "_qualified_op_name", "")).partition("::")
        if space not in _FUNCTIONAL:
            return False, None
        with torch._C.DisableTorchFunction():
            if name == "wait_tensor":
                out = func(*args, **kwargs)
                self._arrived(tensors_in([args[0]]), wait=True)
                return True, out
            written = name.endswith("_")
            given = tensors_in([args[0]])
            self._tell(given)
            place = self._say_place()
            host = self._hosts.functional(name, args, given, place) if self._hosts is not None and not kwargs else None
            with self._in_python():
                out = func(*args, **kwargs)
            if host is not None:
                # Somebody may wait for it later.
                host.__enter__()
            for tensor in tensors_in([args[0] if written else out]):
                self._mirrors.forget(tensor)
            return True, out

    def _calling(self, name: str, plain: "Callable[..., Any]") -> "Callable[..., Any]":
        @functools.wraps(plain)
        def call(group: Any, *arguments: Any, **options: Any) -> Any:
            with torch._C.DisableTorchFunction():
                given = [*arguments, *options.values()]
                tensors = tensors_in(given)
                self._tell(tensors)
                place = self._say_place()
                made = _Call(self._library.highwater_nullgpu_next_result())
                if self._hosts is not None:
                    made.host = self._hosts.call(name, group, given, tensors, place)
                with made.waiting(), self._in_python():
                    work = plain(group, *arguments, **options)
                made.end = self._library.highwater_nullgpu_next_result()
                if name not in ("send", "barrier", "monitored_barrier", "_end_coalescing") and given and not _sends(name, group, given):
                    made.outputs = [tensor for tensor in tensors_in(given[:1]) if tensor.is_cuda]
                for tensor in made.outputs:
                    self._mirrors.forget(tensor)
                together = self._together.get(group)
                if together is not None:
                    together.outputs += made.outputs
                    together.end = made.end
                if name == "_end_coalescing":
                    made = self._together.pop(group, made)
                if together is not None and name != "_end_coalescing":
                    return work
                if work is None:
                    # Newer releases wait by themselves where the program does not want to.
                    self._wait_for(made)
                else:
                    self._waiting[work] = made
                return work

        return call

    def _waiting_for(self, plain: "Callable[..., Any]") -> "Callable[..., Any]":
        @functools.wraps(plain)
        def wait(work: Any, *arguments: Any, **options: Any) -> Any:
            made = self._waiting.get(work)
            with made.waiting() if made is not None else contextlib.nullcontext():
                done = plain(work, *arguments, **options)
            made = self._waiting.pop(work, None)
            if made is not None:
                with torch._C.DisableTorchFunction():
                    self._wait_for(made)
            return done

        return wait

    def _wait_for(self, made: "_Call") -> None:
        if self._library.highwater_nullgpu_wait_for_results(made.first, made.end):
            self._fail()
        self._arrived(made.outputs, wait=False)

    def _tell(self, tensors: "list[torch.Tensor]") -> None:
        """Tells the null GPU what is in tensors."""
        for tensor in tensors:
            value = self._mirrors.get(tensor) if _may_be_carried(tensor) else None
            if value is not None:
                value = value.contiguous()
                self._library.highwater_nullgpu_note(tensor.data_ptr(), value.data_ptr(), _bytes(tensor))

    def _arrived(self, tensors: "list[torch.Tensor]", *, wait: bool) -> None:
        """Takes in what has been received, if that is known."""
        for tensor in tensors:
            if not _may_be_carried(tensor):
                continue
            if wait and self._library.highwater_nullgpu_wait_at(tensor.data_ptr(), _bytes(tensor)):
                self._fail()
            # A part of a storage is not kept without the rest, which others may have received.
            storage = tensor.untyped_storage()
            value = torch.empty(storage.nbytes(), dtype=torch.uint8)
            if self._library.highwater_nullgpu_known(storage.data_ptr(), value.data_ptr(), storage.nbytes()):
                self._mirrors.put_storage(tensor, value)

    def _in_python(self) -> Any:
        return self._hosts.in_python() if self._hosts is not None else contextlib.nullcontext()

    def _say_place(self) -> bytes:
        place = (self._places.innermost(sys._getframe(2)) or "").encode()
        self._library.highwater_nullgpu_here(place, len(place))
        return place

    def _fail(self) -> None:
        raise torch.distributed.DistBackendError(self._library.highwater_nullgpu_failure().decode(errors="replace"))


class _Call:
    def __init__(self, first: int) -> None:
        self.first = self.end = first
        """The numbers of the null GPU's results."""
        self.outputs: "list[torch.Tensor]" = []
        self.host: "hosts.Call | None" = None
        """If it is over the host's memory."""

    def waiting(self) -> Any:
        """A scope in which the program waits for it."""
        return self.host if self.host is not None else contextlib.nullcontext()


def _sends(name: str, group: Any, given: "list[Any]") -> bool:
    """Whether this rank has what the others get."""
    return name == "broadcast" and any(getattr(options, "rootRank", None) == group.rank() for options in given[1:])


def _bytes(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def _may_be_carried(tensor: torch.Tensor) -> bool:
    return tensor.is_cuda and may_be_kept(tensor) and tensor.is_contiguous() and 0 < _bytes(tensor) <= _BYTES_MAX

