"""What one rank tells the others by `broadcast`: small values, through the store by which they found each other.

The null GPU's NCCL moves nothing, and the rank that sends does not wait. A program that has its ranks agree on a number, or sends an
object, reads what it received.
"""

from __future__ import annotations

import functools
import inspect
from collections import Counter
from typing import Any

import torch

from highwater_dryrun import importing
from highwater_dryrun.mirrors import Mirrors, may_be_kept

_BYTES_MAX = 1 << 16
"""Larger tensors are weights, or data."""


def begin(mirrors: Mirrors) -> None:
    """Sends and receives values along with what the program broadcasts, once it imports :mod:`torch.distributed`."""

    def hook(module: Any) -> None:
        replacement = _broadcast(module, mirrors)
        module.broadcast = replacement
        importing.after("torch.distributed", lambda whole: setattr(whole, "broadcast", replacement))

    importing.after("torch.distributed.distributed_c10d", hook)


def _broadcast(module: Any, mirrors: Mirrors) -> Any:
    plain = module.broadcast
    signature = inspect.signature(plain)
    count: "Counter[str]" = Counter()

    @functools.wraps(plain)
    def broadcast(*arguments: Any, **options: Any) -> Any:
        work = plain(*arguments, **options)
        given = signature.bind(*arguments, **options).arguments
        if not module._rank_not_in_group(given.get("group")) and _is_small(given["tensor"]):
            with torch._C.DisableTorchFunction(), torch.no_grad():
                share(given)
        return work

    def share(given: "dict[str, Any]") -> None:
        group = given.get("group") or module._get_default_group()
        name = module._get_process_group_name(group)
        # All of a group broadcast in the same order.
        count[name] += 1
        key = f"highwater/{name}/{count[name]}"
        store = module._get_default_store()
        if _sends(module, group, given):
            _send(store, key, mirrors.get(given["tensor"]))
        else:
            _receive(store, key, given["tensor"], mirrors)

    return broadcast


def _is_small(tensor: torch.Tensor) -> bool:
    return tensor.is_cuda and may_be_kept(tensor) and tensor.numel() * tensor.element_size() <= _BYTES_MAX


def _sends(module: Any, group: Any, given: "dict[str, Any]") -> bool:
    if given.get("group_src") is not None:
        return bool(module.get_rank(group) == given["group_src"])
    return bool(module.get_rank() == given.get("src"))


def _send(store: Any, key: str, value: "torch.Tensor | None") -> None:
    store.set(key, "" if value is None else bytes(value.contiguous().flatten().view(torch.uint8).tolist()).hex())


def _receive(store: Any, key: str, tensor: torch.Tensor, mirrors: Mirrors) -> None:
    sent = bytes.fromhex(store.get(key).decode())
    if sent:
        value = torch.frombuffer(bytearray(sent), dtype=tensor.dtype).reshape(tensor.shape)
        mirrors.put(tensor, value)
    else:
        mirrors.forget(tensor)
