"""The end of a rank among others: who has the store by which the ranks find each other stays until none needs it.

A rank may be done before another has even asked for what lies in its store: not all of them communicate.
"""

from __future__ import annotations

import atexit
import functools
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from highwater_dryrun import children, core, importing, settings

_LOOK_SECS = 0.02

_stores: "list[Any]" = []
"""Those that this process has for others. A program that leaves its process group lets go of them."""


_found: "list[tuple[int, int]]" = []
"""The rank and the number of ranks with which this process met the others, once it has."""


_when_found: "list[Callable[[], None]]" = []


def found() -> "tuple[int, int] | None":
    """Its rank and their number, also where the program has told its processes itself."""
    return _found[0] if _found else None


def when_found(then: "Callable[[], None]") -> None:
    """Calls ``then`` once this process has met the others."""
    if _found:
        then()
    else:
        _when_found.append(then)


def begin(keeps_stores: bool) -> None:
    """Notes this process's rank, once the program imports :mod:`torch.distributed`.

    With ``keeps_stores``, its stores are kept, and it waits at its end.
    """
    if keeps_stores:
        # The first that is registered is the last that is called.
        atexit.register(_at_exit, os.getpid())
    importing.after("torch.distributed.distributed_c10d", lambda module: _watch(module, keeps_stores))


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


def _watch(module: Any, keeps_stores: bool) -> None:
    meet = module.rendezvous
    met: "Counter[int]" = Counter()

    def rendezvous(*arguments: Any, **options: Any) -> "Iterator[tuple[Any, int, int]]":
        for store, rank, size in meet(*arguments, **options):
            _find(rank, size)
            if keeps_stores and rank == 0 and size > 1:
                _stores.append(store)
            port = getattr(store, "port", None)
            if keeps_stores and size > 1 and port is not None:
                # A program that leaves its process group and makes another would have a new store for it, without the keys of the first.
                if met[port]:
                    store = module.PrefixStore(f"group {met[port]}", store)
                met[port] += 1
            yield store, rank, size

    make_group = module._new_process_group_helper

    @functools.wraps(make_group)
    def new_group(size: int, rank: int, *arguments: Any, **options: Any) -> Any:
        # The first group is that of all ranks, also where the program has a store of its own.
        _find(rank, size)
        return make_group(size, rank, *arguments, **options)

    module._new_process_group_helper = new_group
    module.rendezvous = rendezvous


def _find(rank: int, size: int) -> None:
    if _found or size < 2:
        return
    _found.append((rank, size))
    core.library().highwater_nullgpu_is_rank(rank, size)
    children.note_rank(settings.get().directory, rank)
    while _when_found:
        _when_found.pop()()


def _ended_file(directory: str, rank: int) -> str:
    """The parent makes it when a rank's process has ended: ``ended_file`` in crates/nullgpu."""
    return os.path.join(directory, f"{rank}.ended")


def _say_ended(directory: str, rank: int) -> None:
    with open(_ended_file(directory, rank), "w"):
        pass
