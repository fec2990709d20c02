"""The ranks of one job side by side."""

from __future__ import annotations

import importlib
import json
import os
import posixpath
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, Union

from highwater import _highwater
from highwater._documents import Ranks
from highwater._errors import SnapshotError

Path = Union[str, "os.PathLike[str]"]


def ranks(
    *paths: Path,
    jobs: int | None = None,
    allow_any_size: bool = False,
    storage_options: dict[str, Any] | None = None,
) -> Ranks:
    """Compares the ranks of a job: which differ, by how much, and because of what.

    >>> answer = highwater.ranks("job/")
    >>> print(answer["verdict"])
    >>> answer.outliers[0]["because"]

    A file that cannot be read is listed in ``answer["unread"]`` with the reason, and the others are compared.

    Parameters
    ----------
    *paths : str or os.PathLike
        Files, directories, patterns such as ``"job/rank*.pickle"``, and addresses of a store such as ``"s3://bucket/job/"``,
        which fsspec reads.
    jobs : int, optional
        Files to read at the same time; as many as there are cores by default.
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
        If no file can be read, or the files are of several jobs.
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
    try:
        fsspec: Any = importlib.import_module("fsspec")
    except ImportError as error:
        raise ImportError(f"`{address}` is read by fsspec: `pip install fsspec s3fs`") from error
    system, path = fsspec.core.url_to_fs(address, **options)
    scheme = address.split("://", 1)[0]

    def read(name: str) -> str | tuple[str, str]:
        called = f"{scheme}://{name}" if "://" not in name else name
        try:
            return _highwater.digest_of_bytes(system.cat_file(name), called, allow_any_size)
        except SnapshotError as error:
            return called, str(error)
        except Exception as error:
            return called, f"{type(error).__name__}: {error}"

    with ThreadPoolExecutor(jobs or os.cpu_count() or 1) as pool:
        results = list(pool.map(read, _names(system, path)))
    digests = [result for result in results if isinstance(result, str)]
    return digests, [result for result in results if not isinstance(result, str)]


def _names(system: Any, path: str) -> Iterator[str]:
    """The recordings at a path: itself, those that a pattern fits, or those below it."""
    if any(letter in path for letter in "*?["):
        yield from sorted(system.glob(path))
        return
    with suppress(FileNotFoundError):
        if system.isfile(path):
            yield path
            return
    for name in sorted(system.find(path)):
        if _highwater.is_recording_name(posixpath.basename(name)):
            yield name
