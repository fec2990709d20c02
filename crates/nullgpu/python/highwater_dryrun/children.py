"""How the processes end that a program starts itself: only their starter hears of it, and the parent of a dry run names the rank that
failed first.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any

from highwater_dryrun import importing


def begin(directory: str) -> None:
    """Notes the exit status of each process that the program starts and waits for, if it is one of several ranks."""
    for module, method in (("popen_fork", "poll"), ("popen_spawn_posix", "poll"), ("popen_forkserver", "poll")):
        importing.after(
            f"multiprocessing.{module}", lambda module, method=method: _watch(module.Popen, method, directory)
        )
    importing.after("subprocess", lambda module: _watch(module.Popen, "_handle_exitstatus", directory))


def note_rank(directory: str, rank: int) -> None:
    """Notes that this process is a rank of several."""
    _write(os.path.join(directory, f"{os.getpid()}.rank"), str(rank))


def _watch(popen: Any, method: str, directory: str) -> None:
    plain: "Callable[..., Any] | None" = vars(popen).get(method)
    if plain is None:
        return

    @functools.wraps(plain)
    def watched(process: Any, *arguments: Any, **options: Any) -> Any:
        result = plain(process, *arguments, **options)
        if process.returncode is not None and os.path.exists(os.path.join(directory, f"{process.pid}.rank")):
            path = os.path.join(directory, f"{process.pid}.status")
            if not os.path.exists(path):
                _write(path, str(process.returncode))
        return result

    setattr(popen, method, watched)


def _write(path: str, text: str) -> None:
    # The parent shall see it whole, or not at all. Without it, it names no rank.
    try:
        with open(path + ".part", "w") as file:
            file.write(text)
        os.replace(path + ".part", path)
    except OSError:
        pass
