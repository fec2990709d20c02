"""Collectives over the host's memory, which gloo carries: whether all ranks call the same, and what a rank waits for.

Gloo waits for ever if they do not. What each rank calls is compared by the null GPU (`crates/nullgpu-core/src/hosts.rs`). A program
calls them by the methods of a process group or by functional operators. PyTorch's own C++ code, such as DDP's reducer, calls operators
of `c10d`.
"""

from __future__ import annotations

import hashlib
import threading
import uuid
import weakref
from collections.abc import Callable
from typing import Any

import torch

from highwater_dryrun import core

_KINDS = {
    "allreduce": "all_reduce",
    "allreduce_coalesced": "all_reduce",
    "allgather": "all_gather",
    "_allgather_base": "all_gather",
    "allgather_coalesced": "all_gather",
    "allgather_into_tensor_coalesced": "all_gather",
    "reduce_scatter": "reduce_scatter",
    "_reduce_scatter_base": "reduce_scatter",
    "reduce_scatter_tensor_coalesced": "reduce_scatter",
    "reduce": "reduce",
    "broadcast": "broadcast",
    "alltoall": "all_to_all",
    "alltoall_base": "all_to_all",
    "gather": "gather",
    "scatter": "scatter",
    "barrier": "barrier",
    "monitored_barrier": "monitored_barrier",
}
"""The methods of a process group, and the program's words for them."""
_FUNCTIONAL = {
    "all_reduce": "allreduce",
    "all_reduce_": "allreduce",
    "all_reduce_coalesced": "allreduce_coalesced",
    "all_reduce_coalesced_": "allreduce_coalesced",
    "all_gather_into_tensor": "allgather_into_tensor_coalesced",
    "all_gather_into_tensor_coalesced": "allgather_into_tensor_coalesced",
    "reduce_scatter_tensor": "reduce_scatter_tensor_coalesced",
    "reduce_scatter_tensor_coalesced": "reduce_scatter_tensor_coalesced",
    "all_to_all_single": "alltoall_base",
    "broadcast": "broadcast",
    "broadcast_": "broadcast",
}
"""The functional operators, and the methods that do the same."""
_SAME = {
    **dict.fromkeys(("allreduce", "allreduce_coalesced", "broadcast", "reduce"), 0),
    **dict.fromkeys(("reduce_scatter", "_reduce_scatter_base", "reduce_scatter_tensor_coalesced", "scatter"), 0),
    **dict.fromkeys(("allgather", "_allgather_base", "allgather_coalesced", "allgather_into_tensor_coalesced", "gather"), 1),
}
"""Where a method has the tensors that are of one size on all ranks."""
_ROOTS = {"broadcast_": 2, "reduce_": 3, "scatter_": 3, "gather_": 3}
"""Where an operator of `c10d` has the rank that gives to all or gets from all."""
_ELEMENTS = ("int8", "uint8", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64", "bfloat16")
"""In the order of `ncclDataType_t`."""
_BYTES = 1
_UNKNOWN = -1


class Call:
    """A call that this rank may wait in."""

    def __init__(self, place: bytes, group: bytes = b"", number: int = -1, sender: int = -1) -> None:
        self._place = place
        self._waited_for = (group, len(group), number, sender)

    def __enter__(self) -> None:
        library = core.library()
        library.highwater_nullgpu_here(self._place, len(self._place))
        library.highwater_nullgpu_host_waits(*self._waited_for)

    def __exit__(self, kind: "type[BaseException] | None", *_: Any) -> None:
        # One that fails because of another is asked for the reason later.
        if kind is None:
            core.library().highwater_nullgpu_host_waits(b"", 0, -1, -1)


class Hosts:
    """The groups whose collectives gloo carries."""

    def __init__(self, module: Any) -> None:
        self._module = module
        self._names: "weakref.WeakKeyDictionary[Any, bytes | None]" = weakref.WeakKeyDictionary()
        self._noted = threading.local()
        self._operators: Any = None

    def call(
        self, name: str, group: Any, given: "list[Any]", tensors: "list[torch.Tensor]", line: bytes
    ) -> "Call | None":
        """Notes a call at this line of the program; ``None`` if another library carries it, or nothing can be said.

        :raises torch.distributed.DistBackendError: another rank calls something else.
        """
        if (name not in _KINDS and name != "recv") or not self._is_carried_by_gloo(name, group, tensors):
            return None
        if name == "recv":
            return Call(line, sender=self._rank_in_all(group, given[1]))
        roots = [root for options in given[1:] if isinstance(root := getattr(options, "rootRank", None), int)]
        return self._say(name, group, given, roots, line)

    def functional(self, name: str, args: "tuple[Any, ...]", tensors: "list[torch.Tensor]", line: bytes) -> "Call | None":
        """The same for a functional operator."""
        method = _FUNCTIONAL.get(name)
        if method is None:
            return None
        group = self._group_named(args[-1])
        if group is None or not self._is_carried_by_gloo(method, group, tensors):
            return None
        roots = [int(args[1])] if method == "broadcast" else []
        # What a rank gets of a `reduce_scatter` is a part of this.
        given = [] if method.startswith("reduce_scatter") else [args[0], args[0]]
        return self._say(method, group, given, roots, line)

    def follow_native(self, line: "Callable[[], bytes]") -> None:
        """Notes also what C++ code calls; ``line`` tells where the program is."""
        try:
            self._operators = torch.library.Library("c10d", "IMPL")
            for name in _KINDS:
                operator = getattr(torch.ops.c10d, name if name == "barrier" else f"{name}_", None)
                if operator is not None:
                    kernel = self._kernel(name, operator.default, line)
                    # Above the kernel for the host, and called before it.
                    self._operators.impl(operator.default, kernel, "AutogradCPU", with_keyset=True)
        except (AttributeError, RuntimeError, TypeError):
            # An older release: only what Python calls is compared.
            self._operators = None

    def in_python(self) -> "_Noted":
        """A scope of a call that has been noted."""
        return _Noted(self._noted)

    def _kernel(self, name: str, operator: Any, line: "Callable[[], bytes]") -> "Callable[..., Any]":
        own = operator._schema.name.partition("::")[2]

        def kernel(keys: Any, *args: Any, **options: Any) -> Any:
            if not getattr(self._noted, "here", False):
                with torch._C.DisableTorchFunction():
                    self._called_natively(name, own, args, line)
            return operator.redispatch(keys & torch._C._after_autograd_keyset, *args, **options)

        return kernel

    def _called_natively(self, name: str, operator: str, args: "tuple[Any, ...]", line: "Callable[[], bytes]") -> None:
        scripted = next((one for one in args if isinstance(one, torch.ScriptObject)), None)
        group = self._module.ProcessGroup.unbox(scripted) if scripted is not None else None
        if group is None or not self._is_carried_by_gloo(name, group, tensors_in(args[:1])):
            return
        place = _ROOTS.get(operator)
        call = self._say(name, group, list(args), [args[place]] if place is not None else [], line())
        if call is not None:
            # C++ code waits for it somewhere, and does not say where.
            call.__enter__()

    def _say(self, name: str, group: Any, given: "list[Any]", roots: "list[int]", line: bytes) -> "Call | None":
        common = self._name(group)
        if common is None:
            return None
        library = core.library()
        words = _KINDS[name].encode()
        place = _SAME.get(name, len(given))
        count, element = _size(given[place : place + 1])
        number = library.highwater_nullgpu_host_calls(
            common, len(common), group.size(), group.rank(), words, len(words), roots[0] if roots else -1, count, element
        )
        if number == -1:
            raise torch.distributed.DistBackendError(library.highwater_nullgpu_failure().decode(errors="replace"))
        return Call(line, common, number) if number >= 0 else None

    def _group_named(self, name: Any) -> Any:
        try:
            return self._module._resolve_process_group(name)
        except (AttributeError, RuntimeError, TypeError):
            return None

    def _is_carried_by_gloo(self, name: str, group: Any, tensors: "list[torch.Tensor]") -> bool:
        # As `cpu:gloo,cuda:nccl`.
        backends = str(self._module._world.pg_backend_config.get(group, ""))
        of_devices = dict(part.split(":", 1) for part in backends.split(",") if ":" in part)
        if name == "monitored_barrier":
            return of_devices.get("cpu") == "gloo"
        if not tensors or name == "barrier":
            # A barrier, which is on the device if there can be one.
            return set(of_devices.values()) == {"gloo"}
        return of_devices.get(tensors[0].device.type) == "gloo"

    def _name(self, group: Any) -> "bytes | None":
        """A name that only the ranks of this group have, also if a program makes groups of one name one after the other."""
        if group not in self._names:
            self._names[group] = self._made_name(group)
        return self._names[group]

    def _made_name(self, group: Any) -> "bytes | None":
        try:
            _, store = self._module._world.pg_map[group]
            # The first one sets it, and nobody waits.
            common = store.compare_set("highwater", "", uuid.uuid4().hex)
        except (KeyError, RuntimeError, NotImplementedError):
            return None
        return hashlib.sha256(bytes(common) + str(group.group_name).encode()).hexdigest().encode()

    def _rank_in_all(self, group: Any, rank: Any) -> int:
        ranks = self._module._world.pg_group_ranks.get(group, {})
        return next((whole for whole, own in ranks.items() if own == rank), -1)


class _Noted:
    def __init__(self, noted: threading.local) -> None:
        self._noted = noted

    def __enter__(self) -> None:
        self._before = getattr(self._noted, "here", False)
        self._noted.here = True

    def __exit__(self, *_: Any) -> None:
        self._noted.here = self._before


def _size(arguments: Any) -> "tuple[int, int]":
    """The number of elements, and their type in NCCL's numbers; of other types the number of bytes. Nothing is known of no tensors."""
    found = tensors_in(arguments)
    names = {str(tensor.dtype).rpartition(".")[2] for tensor in found}
    if any(tensor.layout is not torch.strided for tensor in found) or len(names) != 1:
        return 0, _UNKNOWN
    (name,) = names
    if name in _ELEMENTS:
        return sum(tensor.numel() for tensor in found), _ELEMENTS.index(name)
    return sum(tensor.numel() * tensor.element_size() for tensor in found), _BYTES


def tensors_in(arguments: Any) -> "list[torch.Tensor]":
    """The tensors among arguments, and in lists among them."""
    found: "list[torch.Tensor]" = []
    for argument in arguments:
        if isinstance(argument, torch.Tensor):
            found.append(argument)
        elif isinstance(argument, (list, tuple)):
            found += tensors_in(argument)
    return found
