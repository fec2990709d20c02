"""Begins a dry run in every Python process of a program; then does what the ``sitecustomize`` that this one hides does.

Python imports a module of this name when it starts, before the program. This one is found first because its directory leads
``PYTHONPATH``, which the processes that a program starts inherit: launchers, ranks, workers.
"""

import importlib.machinery
import importlib.util
import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))


def _run_hidden() -> None:
    """Runs the module of this name that would have been found without this one."""
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", sys.path)
    if spec is not None and spec.loader is not None:
        hidden = importlib.util.module_from_spec(spec)
        sys.modules["sitecustomize"] = hidden
        spec.loader.exec_module(hidden)


if "HIGHWATER_DRYRUN" in os.environ:
    import highwater_dryrun

    highwater_dryrun.begin()

# A program sees the path that it would have seen.
sys.path[:] = [place for place in sys.path if os.path.abspath(place) != _HERE]
_run_hidden()
