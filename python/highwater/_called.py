"""The child of :func:`highwater.dryrun`: calls the function that it was given."""

from __future__ import annotations

import multiprocessing.spawn
import pickle
import sys


def main() -> None:
    """Reads the call from the file that is named on the command line."""
    with open(sys.argv[1], "rb") as file:
        surroundings, packed = pickle.load(file)
    multiprocessing.spawn.prepare(surroundings)
    function, args, kwargs = pickle.loads(packed)
    function(*args, **kwargs)


if __name__ == "__main__":
    main()
