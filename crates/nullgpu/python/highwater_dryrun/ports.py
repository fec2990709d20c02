"""A port that a script gives its ranks, and that another run on this machine has already.

The rank with the store takes another port then, and tells the others, which else would meet the ranks of the other run.
"""

from __future__ import annotations

import errno
import functools
import os
import socket
import time
from typing import Any

from highwater_dryrun import importing

_LOOK_SECS = 0.02
_PATIENCE_SECS = 60.0
_PARAMETERS = (
    "host_name", "port", "world_size", "is_master", "timeout", "wait_for_workers", "multi_tenant", "master_listen_fd",
    "use_libuv",
)
"""Of PyTorch's store, in their order."""
_HERE = ("localhost", "127.0.0.1", "::1", "0.0.0.0")


def begin(directory: str) -> None:
    """Has ranks agree on a port that is free, once the program imports :mod:`torch.distributed`; ``directory`` is the run's."""
    importing.after("torch.distributed.rendezvous", lambda module: _replace(module, directory))


def _replace(module: Any, directory: str) -> None:
    tcp_store = getattr(module, "TCPStore", None)
    if tcp_store is None:
        return
    plain = tcp_store.__init__
    taken: "set[tuple[int, int]]" = set()

    @functools.wraps(plain)
    def begin_store(store: Any, *arguments: Any, **options: Any) -> None:
        # A program makes stores of its own, too; so does a launcher.
        options.update(zip(_PARAMETERS, arguments))
        host, port, is_master = (options.get(name) for name in ("host_name", "port", "is_master"))
        if not port or host not in (*_HERE, socket.gethostname()):
            return plain(store, **options)
        told = _file(directory, port)
        if is_master and options.get("master_listen_fd") is not None:
            # The program listens already.
            _tell(told, port)
        elif is_master:
            before = _told(told)
            # This process may still listen there: PyTorch shares the store then.
            if before is None or (before, os.getpid()) not in taken and not _is_free(before):
                free = port if _is_free(port) else _free_port()
                _tell(told, free)
                # The program may hand on the port that the store has.
                _tell(_file(directory, free), free)
            taken.add((_told(told) or port, os.getpid()))
        else:
            timeout = options.get("timeout")
            patience = timeout.total_seconds() if timeout is not None else _PATIENCE_SECS
            # Whoever listens may be none of this run's processes.
            _wait(told, patience if options.get("multi_tenant") else min(patience, _PATIENCE_SECS))
        options["port"] = _told(told) or port
        return plain(store, **options)

    tcp_store.__init__ = begin_store


def _file(directory: str, port: int) -> str:
    """The file that says which port is taken in the place of this one."""
    return os.path.join(directory, f"port-{port}")


def _is_free(port: int) -> bool:
    """Whether nobody listens there."""
    for family, host in ((socket.AF_INET6, "::"), (socket.AF_INET, "0.0.0.0")):
        try:
            with socket.socket(family) as one:
                one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                one.bind((host, port))
        except OSError as error:
            if error.errno not in (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL):
                return False
    return True


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("", 0))
        return int(one.getsockname()[1])


def _tell(path: str, port: int) -> None:
    # The others shall see it whole, or not at all.
    hidden = f"{path}.{os.getpid()}"
    with open(hidden, "w") as file:
        file.write(str(port))
    os.replace(hidden, path)


def _told(path: str) -> "int | None":
    try:
        with open(path) as file:
            return int(file.read())
    except (OSError, ValueError):
        return None


def _wait(path: str, seconds: float) -> None:
    """Waits as long as the program would for the store itself."""
    until = time.monotonic() + seconds
    while _told(path) is None and time.monotonic() < until:
        time.sleep(_LOOK_SECS)
