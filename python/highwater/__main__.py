"""The ``highwater`` command: that of the native half, with ``run`` and ``ranks --ray``, which are Python's."""

from __future__ import annotations

import os
import signal
import sys
from importlib.util import find_spec

from highwater import _highwater


def main() -> int:
    """Does what the command line asks, and gives the exit status."""
    arguments = ["highwater", *sys.argv[1:]]
    if arguments[1:2] == ["run"]:
        from highwater import autorecord

        return autorecord.main(arguments[2:], program="highwater run")
    if arguments[1:2] == ["ranks"] and any(word.split("=")[0] == "--ray" for word in arguments):
        from highwater import ray

        return ray.main(arguments[2:])
    _activate()
    # Python would only note Ctrl-C and wait for the native half to end.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return _highwater.main(arguments)


def _activate() -> None:
    """`venv/bin/highwater dryrun` runs scripts in that environment, if PyTorch is in it and no other one is active."""
    is_active = any(os.environ.get(name) for name in ("VIRTUAL_ENV", "CONDA_PREFIX"))
    if not is_active and sys.prefix != sys.base_prefix and find_spec("torch") is not None:
        os.environ["VIRTUAL_ENV"] = sys.prefix


if __name__ == "__main__":
    sys.exit(main())
