"""A port that a script gives its ranks, and that another run on this machine has already.

The rank with the store takes another port then, and tells the others, which else would meet the ranks of the other run.
"""

from __future__ import annotations

import errno
import os
import socket
import time
from typing import Any

from highwater_dryrun import importing

_LOOK_SECS = 0.02
_HERE = ("localhost", "127.0.0.1", "::1", "0.0.0.0")


def begin(directory: str) -> None:
    """Has ranks agree on a port that is free, once the program imports :mod:`torch.distributed`; ``directory`` is the run's."""
    importing.after("torch.distributed.rendezvous", lambda module: _replace(module, directory))


def _replace(module: Any, directory: str) -> None:
    plain = getattr(module, "TCPStore", None)
    if plain is None:
        return

    taken: "set[tuple[int, int]]" = set()

    def store(*arguments: Any, **options: Any) -> Any:
        host, port, is_master = (options.get(name) for name in ("host_name", "port", "is_master"))
        # Other stores are a launcher's, which chooses their port itself.
        if not options.get("multi_tenant") or not port or host not in (*_HERE, socket.gethostname()):
            return plain(*arguments, **options)
        told = os.path.join(directory, f"port-{port}")
        if is_master:
            before = _told(told)
            # This process may still listen there: PyTorch shares the store then.
            if before is None or (before, os.getpid()) not in taken and not _is_free(before):
                _tell(told, port if _is_free(port) else _free_port())
            taken.add((_told(told) or port, os.getpid()))
        else:
            _wait(told, options["timeout"].total_seconds())
        options["port"] = _told(told) or port
        return plain(*arguments, **options)

    module.TCPStore = store


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
