"""The memory of a function on a GPU, measured without one."""

from __future__ import annotations

import json
import multiprocessing.spawn
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from highwater._snapshot import Size, Snapshot, load


class DryRunError(RuntimeError):
    """A dry run that failed.

    ``ended``
        the reason: ``oom`` if the imitated GPU ran out of memory, ``error``, ``timeout``, ``crash``; empty if it could not start;
    ``snapshot``
        the recording so far, if there is one.
    """

    def __init__(self, message: str, *, ended: str = "", snapshot: Snapshot | None = None) -> None:
        super().__init__(message)
        self.ended = ended
        self.snapshot = snapshot


def dryrun(
    function: Callable[..., object],
    *,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    gpu: str = "h200",
    memory: Size | None = None,
    gpus: int | None = None,
    steps: int | None = None,
    timeout: float | None = None,
    fake_weights: bool = False,
    assume: Mapping[str, str] | None = None,
) -> Snapshot:
    """Runs a function in a child process with an imitated GPU, and returns its recording.

    The child looks the function up like :mod:`multiprocessing`: it must be in a module, or in a script whose own work is below
    ``if __name__ == "__main__":``. A function in a notebook needs `cloudpickle`. ``steps`` ends the run after that many steps of
    an optimizer, ``timeout`` after that many seconds. The other options are those of ``highwater dryrun``.

    Raises :class:`DryRunError` if the GPU runs out of memory or the function fails.
    """
    with tempfile.TemporaryDirectory(prefix="highwater-") as folder:
        call = Path(folder) / "call.pickle"
        call.write_bytes(_packed(function, tuple(args), dict(kwargs or {})))
        recording = Path(folder) / f"{getattr(function, '__name__', 'function')}.pickle"
        options = {
            "--gpu": gpu,
            "--memory": memory,
            "--gpus": gpus,
            "--steps": steps,
            "--timeout": timeout,
            "--python": sys.executable,
            "--output": recording,
            "--format": "json",
        }
        given = [word for name, value in options.items() if value is not None for word in (name, str(value))]
        given += ["--fake-weights"] if fake_weights else []
        given += [word for what, how in (assume or {}).items() for word in ("--assume", f"{what}={how}")]
        ran = subprocess.run(
            [sys.executable, "-m", "highwater", "dryrun", *given, "-m", "highwater._called", str(call)],
            stdout=subprocess.PIPE,
            check=False,
        )
        snapshot = load(recording.read_bytes()) if recording.exists() else None
    answer = json.loads(ran.stdout) if ran.stdout else {}
    ended = str(answer.get("ended", ""))
    if snapshot is None or ended not in ("exit", "steps"):
        why = str(answer.get("error") or "") or "the dry run made no recording; see its messages on standard error"
        raise DryRunError(why, ended=ended, snapshot=snapshot)
    return snapshot


def _packed(function: Callable[..., object], args: tuple[Any, ...], kwargs: dict[str, Any]) -> bytes:
    """The call, for :mod:`highwater._called`."""
    call = (function, args, kwargs)
    try:
        packed = pickle.dumps(call)
        by_name = True
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        packed, by_name = _packed_whole(call, error), False
    if by_name and _main_has_no_file() and getattr(function, "__module__", "") == "__main__":
        packed = _packed_whole(call, None)
    # Where modules are found, and the script in which the function stands.
    surroundings = multiprocessing.spawn.get_preparation_data("highwater dryrun")
    surroundings.pop("authkey", None)
    return pickle.dumps((surroundings, packed))


def _main_has_no_file() -> bool:
    return getattr(sys.modules["__main__"], "__file__", None) is None


def _packed_whole(call: object, cause: Exception | None) -> bytes:
    """With the function's code, not its name."""
    try:
        import cloudpickle  # type: ignore[import-untyped,import-not-found,unused-ignore]
    except ImportError:
        message = "another process cannot find the function: put it into a module, or install `cloudpickle`"
        raise DryRunError(message) from cause
    return bytes(cloudpickle.dumps(call))
