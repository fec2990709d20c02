"""This process's place in a job of many processes, as its launcher says, and the manifest that describes it."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import socket
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from highwater import _torch
from highwater._write import write_atomically

KEY = "highwater"
"""The key of a snapshot's root that holds the manifest: `Snapshot::MANIFEST` in crates/snapshot."""

ENDING = ".manifest.json"
"""How the file beside a snapshot ends."""

SETTINGS = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF", "PYTORCH_NO_CUDA_MEMORY_CACHING")
"""Variables that change allocations; those of NCCL go with them."""


@dataclass(frozen=True)
class Launcher:
    """The variables by which something that starts many processes tells each its place: the first that is set counts."""

    name: str
    rank: tuple[str, ...]
    world_size: tuple[str, ...]
    local_rank: tuple[str, ...]
    hosts: tuple[str, ...]
    run: tuple[str, ...]
    needs: tuple[str, ...] = ()
    """One of these must be set: a shell within an allocation has a rank, too."""
    is_many: bool = False
    """It starts more than one process, though it does not say how many."""


LAUNCHERS = (
    Launcher(
        "torchrun",
        ("RANK",),
        ("WORLD_SIZE",),
        ("LOCAL_RANK",),
        ("GROUP_WORLD_SIZE",),
        ("TORCHELASTIC_RUN_ID",),
        is_many=True,
    ),
    Launcher(
        "slurm",
        ("SLURM_PROCID",),
        ("SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"),
        ("SLURM_LOCALID",),
        ("SLURM_STEP_NUM_NODES", "SLURM_JOB_NUM_NODES"),
        ("SLURM_JOB_ID",),
        needs=("SLURM_STEP_ID", "SLURM_STEPID"),
    ),
    Launcher(
        "mpi",
        ("OMPI_COMM_WORLD_RANK", "PMI_RANK"),
        ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE"),
        ("OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID"),
        (),
        (),
    ),
    Launcher("kubernetes", ("JOB_COMPLETION_INDEX",), (), (), (), ("JOB_NAME",), is_many=True),
)
"""In the order in which they count: torchrun runs under SLURM and Kubernetes, and then says more."""

NO_NAMES = ("", "none", "default")
"""A run or a role without a name, in the words of launchers."""


@dataclass(frozen=True)
class Place:
    """Where a process stands in its job; ``None`` for the unknown."""

    rank: int | None = None
    world_size: int | None = None
    local_rank: int | None = None
    host: str | None = None
    is_on_several_hosts: bool = False
    role: str | None = None
    run: str | None = None
    launcher: str | None = None


def place(environment: Mapping[str, str] | None = None) -> Place:
    """The place of this process."""
    variables = os.environ if environment is None else environment
    found = next((launcher for launcher in LAUNCHERS if _is_by(launcher, variables)), None)
    if found is None:
        return Place()
    world_size = _number(variables, found.world_size)
    hosts = _number(variables, found.hosts)
    role, run = variables.get("ROLE_NAME", ""), _text(variables, found.run)
    return Place(
        rank=_number(variables, found.rank),
        world_size=world_size,
        local_rank=_number(variables, found.local_rank),
        host=host(variables),
        # Each pod of an indexed job is a host of its own.
        is_on_several_hosts=(hosts or 0) > 1 or found.name == "kubernetes" or "JOB_COMPLETION_INDEX" in variables,
        role=None if role in NO_NAMES else role,
        run=None if run in NO_NAMES else run,
        launcher=found.name,
    )


def _is_by(launcher: Launcher, variables: Mapping[str, str]) -> bool:
    if _number(variables, launcher.rank) is None:
        return False
    if launcher.needs and not any(variables.get(name) for name in launcher.needs):
        return False
    return launcher.is_many or (_number(variables, launcher.world_size) or 0) > 1


def _text(variables: Mapping[str, str], names: tuple[str, ...]) -> str:
    return next((variables[name] for name in names if variables.get(name)), "")


def _number(variables: Mapping[str, str], names: tuple[str, ...]) -> int | None:
    text = _text(variables, names)
    # A number that nobody counts to is something else.
    return int(text) if text.isdecimal() and len(text) < 10 else None


def host(variables: Mapping[str, str]) -> str | None:
    """The host's name without its domain, in letters that may stand in a file's name."""
    name = variables.get("SLURMD_NODENAME") or ""
    if not name:
        with contextlib.suppress(OSError):
            name = socket.gethostname()
    name = name.split(".")[0]
    return "".join(letter if letter.isalnum() or letter in "-_" else "-" for letter in name)[:64] or None


def manifest(recording: Path, started_us: int | None) -> dict[str, Any]:
    """The manifest of this process, whose recording is written to that file; without unknown values."""
    own = place()
    torch = getattr(sys.modules.get("torch"), "__version__", None)
    rank, world_size = _torch.rank(), _torch.world_size()
    values: dict[str, Any] = {
        "recording": recording.name,
        "rank": rank,
        "world_size": own.world_size if world_size is None else world_size,
        "local_rank": own.local_rank,
        "host": own.host or host(os.environ),
        "role": own.role,
        "run": own.run,
        "launcher": own.launcher,
        "started_us": started_us,
        "pid": os.getpid(),
        "torch": None if torch is None else str(torch),
        "highwater": _version(),
        "python": platform.python_version(),
        "settings": _settings(),
        "devices": _torch.devices(),
    }
    known = {name: value for name, value in values.items() if value not in (None, {}, [])}
    return {"format": "highwater-manifest", "version": 1, **known}


def _settings() -> dict[str, str]:
    variables = os.environ.items()
    return {name: value[:256] for name, value in sorted(variables) if name in SETTINGS or name.startswith("NCCL_")}


def _version() -> str | None:
    from importlib import metadata

    with contextlib.suppress(metadata.PackageNotFoundError):
        return metadata.version("highwater")
    return None


def beside(recording: Path) -> Path:
    """The file of the manifest of a recording."""
    return recording.with_name(f"{recording.name.removesuffix('.gz').removesuffix('.pickle')}{ENDING}")


def write_beside(recording: Path, values: dict[str, Any]) -> None:
    """Writes the manifest beside the recording."""
    text = json.dumps(values, indent=2).encode() + b"\n"
    write_atomically(beside(recording), lambda file: _put(file, text))


def _put(file: Any, data: bytes) -> None:
    file.write(data)
