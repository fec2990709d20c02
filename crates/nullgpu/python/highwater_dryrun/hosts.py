"""Collectives over the host's memory, which gloo carries: whether all ranks call the same, and what a rank waits for.

Gloo waits for ever if they do not. What each rank calls is compared by the null GPU (`crates/nullgpu-core/src/hosts.rs`).
"""

from __future__ import annotations

import hashlib
import uuid
import weakref
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
}
"""The methods of a process group, and the program's words for them."""


class Call:
    """A call that this rank may wait in."""

    def __init__(self, place: bytes, group: bytes = b"", number: int = -1, sender: int = -1) -> None:
        self._place = place
        self._waited_for = (group, len(group), number, sender)

    def __enter__(self) -> None:
        library = core.library()
        library.highwater_nullgpu_here(self._place, len(self._place))
        library.highwater_nullgpu_host_waits(*self._waited_for)

    def __exit__(self, *_: Any) -> None:
        core.library().highwater_nullgpu_host_waits(b"", 0, -1, -1)


class Hosts:
    """The groups whose collectives gloo carries."""

    def __init__(self, module: Any) -> None:
        self._module = module
        self._names: "weakref.WeakKeyDictionary[Any, bytes | None]" = weakref.WeakKeyDictionary()

    def call(self, name: str, group: Any, given: "list[Any]", tensors: "list[torch.Tensor]", line: bytes) -> "Call | None":
        """Notes a call at this line of the program; ``None`` if another library carries it, or nothing can be said.

        :raises torch.distributed.DistBackendError: another rank calls something else.
        """
        kind = _KINDS.get(name)
        if (kind is None and name != "recv") or not self._is_carried_by_gloo(group, tensors):
            return None
        if kind is None:
            return Call(line, sender=self._rank_in_all(group, given[1]))
        common = self._name(group)
        if common is None:
            return None
        roots = [root for options in given[1:] if isinstance(root := getattr(options, "rootRank", None), int)]
        library = core.library()
        words = kind.encode()
        number = library.highwater_nullgpu_host_calls(
            common, len(common), group.size(), group.rank(), words, len(words), roots[0] if roots else -1
        )
        if number == -1:
            raise torch.distributed.DistBackendError(library.highwater_nullgpu_failure().decode(errors="replace"))
        return Call(line, common, number) if number >= 0 else None

    def _is_carried_by_gloo(self, group: Any, tensors: "list[torch.Tensor]") -> bool:
        # As `cpu:gloo,cuda:nccl`.
        backends = str(self._module._world.pg_backend_config.get(group, ""))
        of_devices = dict(part.split(":", 1) for part in backends.split(",") if ":" in part)
        if not tensors:
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
