"""The end of a rank among others: who has the store by which the ranks find each other stays until none needs it.

A rank may be done before another has even asked for what lies in its store: not all of them communicate.
"""

from __future__ import annotations

import atexit
import os
import sys
import time
from collections.abc import Iterator
from typing import Any

from highwater_dryrun import importing, settings

_LOOK_SECS = 0.02

_stores: "list[Any]" = []
"""Those that this process has for others. A program that leaves its process group lets go of them."""


def begin() -> None:
    """Keeps the stores of this process, once the program imports :mod:`torch.distributed`, and waits at its end."""
    # The first that is registered is the last that is called.
    atexit.register(_at_exit, os.getpid())
    importing.after("torch.distributed.distributed_c10d", _keep_stores)


def wait_for_others() -> None:
    """Returns when no other rank needs this one any more; at once if this one has nothing that they could need."""
    wanted = settings.get()
    own = os.environ.get("RANK", "")
    if not _stores or not own.isdecimal():
        return
    # Two that have stores do not wait for each other.
    _say_ended(wanted.directory, int(own))
    while not all(os.path.exists(_ended_file(wanted.directory, rank)) for rank in range(wanted.launched_ranks)):
        time.sleep(_LOOK_SECS)


def _at_exit(process: int) -> None:
    # A rank that failed is not waited with: the others shall hear of it.
    if os.getpid() == process and getattr(sys, "last_value", None) is None:
        wait_for_others()


def _keep_stores(module: Any) -> None:
    meet = module.rendezvous

    def rendezvous(*arguments: Any, **options: Any) -> "Iterator[tuple[Any, int, int]]":
        for store, rank, size in meet(*arguments, **options):
            if rank == 0 and size > 1:
                _stores.append(store)
            yield store, rank, size

    module.rendezvous = rendezvous


def _ended_file(directory: str, rank: int) -> str:
    """The parent makes it when a rank's process has ended: ``ended_file`` in crates/nullgpu."""
    return os.path.join(directory, f"{rank}.ended")


def _say_ended(directory: str, rank: int) -> None:
    with open(_ended_file(directory, rank), "w"):
        pass
