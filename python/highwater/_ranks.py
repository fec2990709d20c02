"""The ranks of one job side by side."""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Union

from highwater import _highwater
from highwater._documents import Ranks
from highwater._errors import SnapshotError
from highwater._storage import Place, reason

Path = Union[str, "os.PathLike[str]"]


def ranks(
    *paths: Path,
    jobs: int | None = None,
    allow_any_size: bool = False,
    storage_options: dict[str, Any] | None = None,
) -> Ranks:
    """Compares the ranks of a job: which ranks differ, by how much, and why.

    >>> answer = highwater.ranks("job/")
    >>> print(answer["verdict"])
    >>> answer.outliers[0]["because"]

    A file that cannot be read is listed in ``answer["unread"]`` with the reason, and the others are compared.

    Parameters
    ----------
    *paths : str or os.PathLike
        Files, directories, patterns such as ``"job/rank*.pickle"``, and addresses of a store such as ``"s3://bucket/job/"``,
        which are read by fsspec.
    jobs : int, optional
        The number of files to read at the same time; by default, the number of cores.
    allow_any_size : bool
        Unpack compressed files of any size: see :func:`load`.
    storage_options : dict, optional
        Options of the store for fsspec, such as ``{"endpoint_url": …}``.

    Returns
    -------
    Ranks
        The document of ``highwater ranks --format json``, a dict; ``print`` shows the text of the command.

    Raises
    ------
    SnapshotError
        If no file can be read, or the files belong to several jobs.
    ImportError
        If an address needs fsspec and it is not installed.
    """
    if not paths:
        raise TypeError("give the paths of the ranks' recordings")
    texts = [os.fspath(path) for path in paths]
    local = [text for text in texts if "://" not in text]
    digests: list[str] = []
    unread: list[tuple[str, str]] = []
    if local:
        digests, unread = _highwater.digests_of_paths(local, jobs, allow_any_size)
    for text in texts:
        if "://" in text:
            found, failed = _remote(text, jobs, allow_any_size, storage_options or {})
            digests += found
            unread += failed
    if not digests:
        reasons = "; ".join(f"`{file}`: {reason}" for file, reason in unread[:5])
        raise SnapshotError(f"no rank's snapshot could be read{': ' if reasons else ''}{reasons}")
    document, text = _highwater.compare_digests(digests, unread)
    return Ranks(json.loads(document), text)


def _remote(
    address: str, jobs: int | None, allow_any_size: bool, options: dict[str, Any]
) -> tuple[list[str], list[tuple[str, str]]]:
    """The digests of the recordings at an address, and those that cannot be read."""

    def read(place: Place) -> str | tuple[str, str]:
        try:
            return place.read(allow_any_size).digest(str(place))
        except SnapshotError as error:
            return str(place), str(error)
        except Exception as error:  # Storage libraries have errors of their own.
            return str(place), reason(error)

    places = Place.of(address, options=options).recordings()
    with ThreadPoolExecutor(jobs or os.cpu_count() or 1) as pool:
        results = list(pool.map(read, places))
    digests = [result for result in results if isinstance(result, str)]
    return digests, [result for result in results if not isinstance(result, str)]
