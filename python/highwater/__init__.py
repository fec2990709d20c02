"""Shows, explains and predicts the GPU memory use of PyTorch programs.

    >>> import highwater
    >>> snapshot = highwater.load("run.pickle")
    >>> print(snapshot.text)

Importing highwater imports only the standard library: never torch, NumPy or any other package.
"""

import sys

if sys.version_info < (3, 10):
    raise ImportError(
        "highwater needs Python 3.10 or newer, and this is {}.{}".format(*sys.version_info[:2])
    )

try:
    from highwater._highwater import __version__
except ImportError as _error:
    from highwater._errors import unloadable

    raise unloadable(_error) from None

from highwater import cycles
from highwater._answer import watchable
from highwater._documents import Check, Diff, Ranks, Simulation
from highwater._dryrun import DryRunError, dryrun
from highwater._errors import SnapshotError
from highwater._estimate import Estimate, estimate
from highwater._names import NamedTensors, name_tensors
from highwater._ranks import ranks
from highwater._record import Recorder, phase, record, step
from highwater._snapshot import Frame, Snapshot, load
from highwater._sql import sql
from highwater._table import Column, Table

__all__ = [
    "Check",
    "Column",
    "Diff",
    "DryRunError",
    "Estimate",
    "Frame",
    "NamedTensors",
    "Ranks",
    "Recorder",
    "Simulation",
    "Snapshot",
    "SnapshotError",
    "Table",
    "__version__",
    "cycles",
    "dryrun",
    "estimate",
    "load",
    "name_tensors",
    "phase",
    "ranks",
    "record",
    "sql",
    "step",
    "watchable",
]
