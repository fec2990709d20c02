"""Files that appear whole, or not at all."""

from __future__ import annotations

import contextlib
import errno
import gzip
import os
import pickle
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""The system's error codes for a full disk, quota or limit."""


def write_snapshot(path: Path, snapshot: Any) -> Path:
    """Writes a snapshot in PyTorch's format, and returns its path: next to ``path``, compressed, if the disk has too little
    space.

    Raises ``OSError`` if it cannot be written at all; nothing is left behind then, and a file that was there stays.
    """
    try:
        write_atomically(path, lambda file: pickle.dump(snapshot, file, protocol=4))
    except OSError as error:
        if error.errno not in NO_ROOM:
            raise
        path = path.with_name(f"{path.name}.gz")
        write_atomically(path, lambda file: _pack(file, snapshot))
    return path


def _pack(file: BinaryIO, snapshot: Any) -> None:
    with gzip.GzipFile(fileobj=file, mode="wb", compresslevel=1) as packed:
        pickle.dump(snapshot, packed, protocol=4)


def write_atomically(path: Path, write: Callable[[BinaryIO], None]) -> None:
    """Lets ``write`` fill a file next to ``path``, which then replaces it.

    So a reader never sees half of it, and any interruption leaves the previous file. A link is followed to its target; a pipe or
    a device is written directly.
    """
    if path.exists() and not path.is_file():
        with open(path, "wb") as place:
            write(place)
        return
    path = Path(os.path.realpath(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    made = path.with_name(f".{path.name}.{secrets.token_hex(8)}.part")
    # The system keeps from others what the umask says, as for any file that `open` makes. Nothing that lies there is followed.
    number = os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
    try:
        with os.fdopen(number, "wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(made, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(made)
        raise
