"""One process that believes to be the first of many: the others are not there, and what they would send is not known.

Collectives on the device succeed at once, for the null GPU's NCCL waits for nobody. What would wait is how ranks find each other, and
collectives on the CPU.
"""

from __future__ import annotations

from typing import Any

from highwater_dryrun import importing


def imagine() -> None:
    """Has this process find the others without there being any, once the program imports :mod:`torch.distributed`."""
    importing.after("torch.distributed.distributed_c10d", _imagine)


def _imagine(module: Any) -> None:
    init = module.init_process_group
    new_group = module.new_group

    def meet(url: str, rank: int = -1, world_size: int = -1, **_: Any) -> Any:
        from torch.distributed import HashStore

        from highwater_dryrun import settings

        # A store of this process only: whoever would have to wait for others' keys is the one that sets them.
        return iter([(HashStore(), 0, settings.get().imagined_ranks)])

    def init_process_group(backend: "str | None" = None, *arguments: Any, **options: Any) -> None:
        init(_without_gloo(backend or "cpu:gloo,cuda:nccl"), *arguments, **options)

    def new_group_of(*arguments: Any, **options: Any) -> Any:
        if options.get("backend"):
            options["backend"] = _without_gloo(options["backend"])
        return new_group(*arguments, **options)

    module.rendezvous = meet
    for name, replacement in (("init_process_group", init_process_group), ("new_group", new_group_of)):
        setattr(module, name, replacement)
        importing.after("torch.distributed", lambda whole, name=name, new=replacement: setattr(whole, name, new))


def _without_gloo(backend: str) -> str:
    """The same, with PyTorch's own backend that does nothing in the place of the one that talks to the others."""
    backend = str(backend).lower()
    if "gloo" in backend:
        # Registers it.
        import torch.testing._internal.distributed.fake_pg  # noqa: F401
    return backend.replace("gloo", "fake")
