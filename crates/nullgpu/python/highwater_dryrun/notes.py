"""What a process leaves behind for the parent: a snapshot, and a note about how the run went."""

from __future__ import annotations

import json
import os
import pickle
import resource
import sys
from dataclasses import asdict, dataclass
from typing import Any

from highwater_dryrun import core, farewell, ranks

_ROOM_BYTES = 4096
"""Of the file for word to the parent: ``Room`` in crates/nullgpu."""
_WITHOUT_GPU = ("jax",)
"""Modules that find no GPU in a dry run, and go on without."""


@dataclass
class Failure:
    """The first allocation that the card had no memory for."""

    device: int
    requested_bytes: int
    count: int = 1
    """How many failed in all."""
    snapshot: str = ""
    """The state at that moment."""


def write_snapshot(directory: str, snapshot: "dict[str, Any]", name: str) -> str:
    """Writes a snapshot; gives the file's name, or nothing if it could not be written."""
    path = os.path.join(directory, f"{os.getpid()}.{name}.pickle")
    driver = core.library().highwater_nullgpu_driver()
    if driver is not None:
        snapshot["highwater_driver"] = driver.decode()
    try:
        with open(path + ".part", "wb") as file:
            pickle.dump(snapshot, file, protocol=4)
        os.replace(path + ".part", path)
    except OSError as error:
        _leave_word(directory, error)
        return ""
    return path


def write(directory: str, *, torch: Any, failed: "Failure | None", **what: Any) -> None:
    """Writes the note."""
    cuda = torch.cuda
    devices = []
    for device in range(cuda.device_count()):
        stats = cuda.memory_stats(device)
        if stats.get("reserved_bytes.all.peak", 0):
            wanted = ("requested_bytes", "allocated_bytes", "active_bytes", "reserved_bytes")
            devices.append(
                {
                    "device": device,
                    **{f"peak_{name}": stats.get(f"{name}.all.peak", 0) for name in wanted},
                    "num_alloc_retries": stats.get("num_alloc_retries", 0),
                    "num_ooms": stats.get("num_ooms", 0),
                }
            )
    rank, size = farewell.found() or (_number("RANK"), _number("WORLD_SIZE"))
    note = {
        "pid": os.getpid(),
        "arguments": sys.argv,
        "rank": rank,
        "world_size": size,
        "groups": ranks.groups(),
        "torch": str(torch.__version__),
        "devices": devices,
        "failed": asdict(failed) if failed is not None else None,
        "compiled": bool(getattr(sys.modules.get("torch._dynamo.utils"), "counters", {}).get("frames")),
        "benchmarked": bool(torch.backends.cudnn.benchmark),
        "without_gpu": [name for name in _WITHOUT_GPU if name in sys.modules],
        "timing_decides": bool(core.library().highwater_nullgpu_timing_decides()),
        "convolutions_estimated": bool(core.library().highwater_nullgpu_convolutions_estimated()),
        "host_peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        **what,
    }
    path = os.path.join(directory, f"{os.getpid()}.json")
    try:
        with open(path + ".part", "w") as file:
            json.dump(note, file)
        os.replace(path + ".part", path)
    except OSError as error:
        _leave_word(directory, error)


def _leave_word(directory: str, error: OSError) -> None:
    """Tells the parent why something could not be written: in a file of its own that has room in it, so that a full disk takes it."""
    try:
        # Whatever half was written is in the way of others.
        for name in os.listdir(directory):
            if name.startswith(f"{os.getpid()}.") and name.endswith(".part"):
                os.unlink(os.path.join(directory, name))
        with open(os.path.join(directory, "unwritten.txt"), "r+b") as file:
            file.write(str(error).encode(errors="replace")[:_ROOM_BYTES])
    except OSError:
        print(f"highwater: what was recorded cannot be written: {error}", file=sys.stderr)


def _number(name: str) -> "int | None":
    text = os.environ.get(name, "")
    return int(text) if text.isdecimal() else None
