"""One process that believes to be one of many: the others are not there, and are taken to be like this one.

Collectives on the device succeed at once, for the null GPU's NCCL waits for nobody. What would wait is how ranks find each other, and
collectives on the CPU.
"""

from __future__ import annotations

import os
from typing import Any

from highwater_dryrun import importing

_ID_BYTES = 128
"""Of `ncclUniqueId`."""
_kept: "list[Any]" = []
_groups: "list[list[int]]" = []


def groups() -> "list[list[int]]":
    """The ranks of each group that the program has made."""
    return _groups


def imagine() -> None:
    """Has this process find the others without there being any, once the program imports :mod:`torch.distributed`."""
    importing.after("torch.distributed.distributed_c10d", _imagine)


def _imagine(module: Any) -> None:
    own = int(os.environ.get("RANK", "0"))
    init = module.init_process_group
    new_group = module.new_group

    def meet(url: str, rank: int = -1, world_size: int = -1, **_: Any) -> Any:
        from highwater_dryrun import settings

        return iter([(_store(own), own, settings.get().imagined_ranks)])

    def init_process_group(backend: "str | None" = None, *arguments: Any, **options: Any) -> None:
        # With a device it splits groups off, and one that is split off learns its size from the others.
        options.pop("device_id", None)
        init(_without_gloo(backend or "cpu:gloo,cuda:nccl"), *arguments, **options)

    def new_group_of(*arguments: Any, **options: Any) -> Any:
        if options.get("backend"):
            options["backend"] = _without_gloo(options["backend"])
        return new_group(*arguments, **options)

    new_tagged_group = module._new_group_with_tag

    def noted_group(ranks: Any = None, *arguments: Any, **options: Any) -> Any:
        # Device meshes call this, too; their module may have imported `new_group` before it was replaced.
        if ranks is not None:
            _groups.append([int(rank) for rank in ranks])
        return new_tagged_group(ranks, *arguments, **options)

    module._new_group_with_tag = noted_group
    module.rendezvous = meet
    for name, replacement in (("init_process_group", init_process_group), ("new_group", new_group_of)):
        setattr(module, name, replacement)
        importing.after("torch.distributed", lambda whole, name=name, new=replacement: setattr(whole, name, new))


def _store(rank: int) -> Any:
    """A store of this process only. Whoever would have to wait for others' keys is the first rank, which sets them; another rank finds
    something under every key, of the size of what ranks tell each other."""
    from torch.distributed import HashStore, Store

    if rank == 0:
        return HashStore()

    class Told(Store):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self._values: "dict[str, bytes]" = {}

        def set(self, key: str, value: Any) -> None:
            self._values[key] = value.encode() if isinstance(value, str) else bytes(value)

        def get(self, key: str) -> bytes:
            return self._values.get(key, bytes(_ID_BYTES))

        def add(self, key: str, value: int) -> int:
            total = int(self._values.get(key, b"0")) + value
            self._values[key] = str(total).encode()
            return total

        def check(self, keys: "list[str]") -> bool:
            return all(key in self._values for key in keys)

        def wait(self, keys: "list[str]", timeout: Any = None) -> None:
            pass

        def delete_key(self, key: str) -> bool:
            return self._values.pop(key, None) is not None

        def clone(self) -> Any:
            return self

        def num_keys(self) -> int:
            return len(self._values)

    store = Told()
    # PyTorch's own half of it outlives the process group.
    _kept.append(store)
    return store


def _without_gloo(backend: str) -> str:
    """The same, with PyTorch's own backend that does nothing in the place of the one that talks to the others."""
    backend = str(backend).lower()
    if "gloo" in backend:
        # Registers it.
        import torch.testing._internal.distributed.fake_pg  # noqa: F401
    return backend.replace("gloo", "fake")
