"""Thousands of recordings on a Ray cluster, by Ray Data.

    >>> import highwater.ray
    >>> job = highwater.ray.analyze("s3://bucket/run/*.pickle.gz", out="s3://bucket/tables")  # doctest: +SKIP
    >>> print(job)  # doctest: +SKIP

Ray finds the machines, starts the tasks, and starts them again if a worker is lost. Each task runs the same Rust code as the
command. This needs ``pip install 'ray[data]<2.64'``, here and on the workers, which also need highwater.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import json
import os
import pickle
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Union

from highwater import _highwater
from highwater._documents import Ranks
from highwater._errors import SnapshotError
from highwater._snapshot import Size
from highwater._storage import Place, reason

Source = Union[str, "os.PathLike[str]", Sequence[Union[str, "os.PathLike[str]"]]]
"""The recordings: a path, a folder, a pattern or an address, or several of these."""

MEMORY_PER_INPUT_BYTE = 3
"""A recording takes at most so many bytes of memory for each of its own, unpacked: docs/benchmarks.md measures less."""

BASE_MEMORY = 256 << 20
"""Bytes of a worker without a recording: Python, Ray and pyarrow."""


@dataclass(frozen=True)
class Setup:
    """One set-up of a :func:`sweep`.

    Attributes
    ----------
    options : dict
        The parameters of the run.
    document : dict or None
        The document of ``highwater dryrun --format json``; None if there is none.
    reason : str or None
        Why there is none.
    """

    options: dict[str, Any]
    document: dict[str, Any] | None
    reason: str | None

    @property
    def peak_reserved_bytes(self) -> int | None:
        """The reserved peak that the answer shows, where the run allocated anything."""
        peak = (self.document or {}).get("peak")
        return None if peak is None else int(peak["reserved_bytes"])


@dataclass(frozen=True)
class _Work:
    """Options that all files share; sent to the workers."""

    out: Place | None
    run: str | None
    entries: bool
    memory: int
    attempts: int
    allow_any_size: bool


def analyze(
    source: Source,
    *,
    out: str | os.PathLike[str] | None = None,
    address: str | None = None,
    filesystem: object = None,
    run: str | None = None,
    entries: bool = False,
    force: bool = False,
    memory: Size = "4GiB",
    attempts: int = 3,
    allow_any_size: bool = False,
) -> Ranks:
    """Analyses recordings on a Ray cluster: the answer of ``highwater ranks``, and the tables of ``highwater export --to parquet``.

    Parameters
    ----------
    source : path, address, or several
        Recordings, folders of recordings or patterns, on a disk that all workers see or in a bucket:
        ``"s3://bucket/run/*.pickle.gz"``.
    out : path or address, optional
        The folder of the tables; without it, none are written. Each file appears as a whole.
    address : str, optional
        The cluster, as in ``ray.init``; by default the connected cluster, or a new one on this machine.
    filesystem : object, optional
        The file system of `fsspec` or pyarrow that holds the recordings, and the tables if ``out`` is given.
    run : str, optional
        The name of the run in the tables; by default from the names of files and folders.
    entries : bool
        Whether to also write the table of all entries.
    force : bool
        Whether existing tables may be replaced.
    memory : int or str
        The memory of one task. Ray starts only as many tasks as fit; a recording that would need more is listed as unread.
    attempts : int
        How often a file is tried if its storage fails, and a task if its worker is lost.
    allow_any_size : bool
        Whether a compressed file may unpack to any size that fits in the task's memory.

    Returns
    -------
    Ranks
        The document of ``highwater ranks --format json``, a dict; ``print`` shows the text of the command. ``["unread"]`` lists the
        files that could not be read, each with its reason.

    Raises
    ------
    SnapshotError
        If there are no recordings, none can be read, or tables already exist.
    """
    import ray

    places, unread = _found(source, filesystem)
    target = None if out is None else Place.of(out, filesystem)
    work = _Work(target, run, entries, _highwater.parse_bytes(str(memory)), max(attempts, 1), allow_any_size)
    rows = _numbered(places, run)
    if not rows:
        raise SnapshotError(
            f"there are no recordings{': ' if unread else ''}{_listed(unread)}",
            hint="name snapshots, or folders with files such as `rank0.pickle`",
        )
    if target is not None and not force:
        _check_free(target, rows, entries)
    _connect(ray, address, work.memory)
    results = _map(ray, rows, _analyze_one, work)
    digests = [result["digest"] for result in results if result["digest"] is not None]
    unread += [
        {"file": str(result["file"]), "reason": str(result["reason"])} for result in results if result["reason"] is not None
    ]
    if not digests:
        raise SnapshotError(f"none of the files can be read: {_listed(unread)}")
    document, text = _highwater.compare_digests(digests, [(one["file"], one["reason"]) for one in unread])
    return Ranks(json.loads(document), text)


def sweep(
    script: str | os.PathLike[str],
    grid: Mapping[str, Sequence[object]],
    *,
    address: str | None = None,
    gpu: str = "h200",
    memory: Size | None = None,
    steps: int | None = None,
    timeout: float | None = 600.0,
    task_memory: Size = "4GiB",
    attempts: int = 3,
) -> list[Setup]:
    """Dry runs of a script in many set-ups, as tasks of a Ray cluster.

    Parameters
    ----------
    script : path
        The script, on a disk that all workers see.
    grid : mapping
        The values of each option of the script: ``{"--batch": [8, 16], "--seq": [512]}`` is two set-ups. ``gpu``, ``memory``,
        ``steps`` and ``timeout``, without dashes, are options of the dry run, and may vary too.
    address, gpu, memory, steps, timeout
        The cluster, and the options of ``highwater dryrun``.
    task_memory : int or str
        The memory of one task on the machine that runs it.
    attempts : int
        How often a task is tried if its worker is lost.

    Returns
    -------
    list of Setup
        One for each set-up, in the order of the grid.
    """
    import ray

    common = {"gpu": gpu, "memory": memory, "steps": steps, "timeout": timeout}
    names = list(grid)
    setups = [dict(zip(names, values)) for values in itertools.product(*(list(grid[name]) for name in names))]
    rows = [
        {"number": number, "file": str(script), "words": _dry_run_words(str(script), common, options)}
        for number, options in enumerate(setups)
    ]
    work = _Work(None, None, False, _highwater.parse_bytes(str(task_memory)), max(attempts, 1), False)
    _connect(ray, address, work.memory)
    results = _map(ray, rows, _dry_run_one, work)
    return [
        Setup(options, json.loads(result["digest"]) if result["digest"] else None, result["reason"])
        for options, result in zip(setups, results)
    ]


def main(arguments: Sequence[str]) -> int:
    """``highwater ranks --ray ADDRESS PATH…``: prints the answer, and gives the exit status."""
    parser = argparse.ArgumentParser(prog="highwater ranks --ray ADDRESS")
    parser.add_argument("paths", nargs="+", metavar="PATH", help="recordings, folders, patterns or addresses")
    parser.add_argument("--ray", required=True, metavar="ADDRESS", help="the cluster: `auto`, `local` or `ray://host:10001`")
    parser.add_argument("--format", choices=["text", "json"], default="text")
    parser.add_argument("-o", "--output", metavar="OUT", help="also write the tables here")
    parser.add_argument("--force", action="store_true", help="replace existing tables")
    parser.add_argument("--memory", default="4GiB", metavar="SIZE", help="memory of a task (default: 4GiB)")
    asked = parser.parse_args(arguments)
    try:
        job = analyze(
            asked.paths, out=asked.output, address=asked.ray, force=asked.force, memory=asked.memory
        )
    except (SnapshotError, ImportError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(json.dumps(job) if asked.format == "json" else str(job).rstrip("\n"))
    return 1 if job["unread"] else 0


# What the driver does.


def _found(source: Source, filesystem: object) -> tuple[list[Place], list[dict[str, str]]]:
    """The recordings, and the places that cannot be looked up."""
    named = [source] if isinstance(source, (str, os.PathLike)) else list(source)
    places: dict[str, Place] = {}
    unread = []
    for one in named:
        try:
            found = Place.of(one, filesystem).recordings()
        except Exception as error:  # Storage libraries have errors of their own.
            unread.append({"file": os.fspath(one), "reason": reason(error)})
            continue
        places.update((str(place), place) for place in found)
    return list(places.values()), unread


def _listed(unread: Iterable[Mapping[str, str]]) -> str:
    return "; ".join(f"`{one['file']}`: {one['reason']}" for one in itertools.islice(unread, 20))


def _numbered(places: Iterable[Place], run: str | None) -> list[dict[str, Any]]:
    """A row for each file: with its run, its rank, and which file of these it is."""
    parts: dict[tuple[str, int | None], int] = {}
    rows = []
    for number, place in enumerate(places):
        name, rank = _highwater.run_of_path(place.path)
        key = (run or name, rank)
        parts[key] = parts.get(key, -1) + 1
        rows.append(
            {"number": number, "file": str(place), "place": place, "run": key[0], "rank": rank, "part": parts[key]}
        )
    return rows


def _check_free(target: Place, rows: Iterable[Mapping[str, Any]], entries: bool) -> None:
    """Says early that tables are there already."""
    for row in rows:
        for path in _highwater.table_paths(row["run"], row["rank"], row["part"], entries):
            there = target.at(f"{target.path.rstrip('/')}/{path}")
            if there.exists():
                raise SnapshotError(f"`{there}` already exists", hint="replace tables with `force=True`")


def _connect(ray: Any, address: str | None, memory: int) -> None:
    """Connects to a cluster, or starts one here; one that cannot grow must have a machine with room for a task."""
    if not ray.is_initialized():
        # Ray would report the use of a cluster that it starts; whoever wants that says so.
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        ray.init(address=address, log_to_driver=False)
    room = max((int(node["Resources"].get("memory", 0)) for node in ray.nodes()), default=0)
    if address in (None, "local") and room < memory:
        raise SnapshotError(
            f"a task may take {_highwater.size(memory)}, and no machine of the cluster has more than {_highwater.size(room)}",
            hint="give tasks less memory",
        )


def _map(ray: Any, rows: list[dict[str, Any]], task: Any, work: _Work) -> list[dict[str, Any]]:
    """The results of a task for each row, in their order; of a task that was lost for good, the reason."""
    context = ray.data.DataContext.get_current()
    before = (context.max_errored_blocks, context.enable_progress_bars)
    # A file that ends its worker each time costs its own row and no other's.
    context.max_errored_blocks, context.enable_progress_bars = -1, False
    results: dict[int, dict[str, Any]] = {}
    try:
        # As bytes: Arrow, in which Ray keeps rows, has no file systems.
        packed = [{"number": row["number"], "packed": pickle.dumps(row)} for row in rows]
        dataset = ray.data.from_items(packed, override_num_blocks=max(len(packed), 1))
        common = {"task": task, "work": work}
        # Ray Data tries a task without end, where nothing is said.
        retries = functools.partial(_retries, work.attempts - 1)
        mapped = dataset.map(
            _in_a_task, fn_kwargs=common, num_cpus=1, memory=work.memory, ray_remote_args_fn=retries
        )
        for item in mapped.iter_rows():
            results[int(item["number"])] = pickle.loads(item["packed"])
    finally:
        context.max_errored_blocks, context.enable_progress_bars = before
    lost = f"its worker was lost {work.attempts} times: the file may need more memory than a task has"
    return [
        results.get(row["number"], {"number": row["number"], "file": row["file"], "digest": None, "reason": lost})
        for row in rows
    ]


def _retries(count: int) -> dict[str, Any]:
    return {"max_retries": count}


# What the workers do.


def _in_a_task(item: dict[str, Any], task: Any, work: _Work) -> dict[str, Any]:
    return {"number": item["number"], "packed": pickle.dumps(task(pickle.loads(item["packed"]), work))}


def _analyze_one(row: dict[str, Any], work: _Work) -> dict[str, Any]:
    """Reads a file, writes its tables, and gives its digest, or the reason why not."""
    result = {"number": row["number"], "file": row["file"], "digest": None, "reason": None}
    for attempt in range(1, work.attempts + 1):
        try:
            result["digest"] = _digest(row, work)
            return result
        except SnapshotError as error:
            result["reason"] = error.args[0]
            return result
        except Exception as error:  # Storage libraries have errors of their own.
            result["reason"] = reason(error)
            if attempt < work.attempts and _may_pass(error):
                time.sleep(0.1 * 2**attempt)
            else:
                return result
    return result


def _digest(row: dict[str, Any], work: _Work) -> str:
    place: Place = row["place"]
    room = max(work.memory - BASE_MEMORY, 0) // MEMORY_PER_INPUT_BYTE
    snapshot = place.read(work.allow_any_size, room)
    if work.out is None:
        return snapshot.digest(row["file"])
    # A task that is tried again replaces its own tables; the driver has looked for others'.
    about = (row["file"], row["run"], row["rank"], row["part"], work.entries, True)
    if not work.out.is_remote:
        snapshot.write_tables(work.out.path, *about)
        return snapshot.digest(row["file"])
    with tempfile.TemporaryDirectory(prefix="highwater-") as folder:
        snapshot.write_tables(folder, *about)
        # Those of `snapshots` come last: what is listed there is there with all tables.
        for path in reversed(_highwater.table_paths(row["run"], row["rank"], row["part"], work.entries)):
            work.out.put(Path(folder) / path, path)
    return snapshot.digest(row["file"])


def _dry_run_one(row: dict[str, Any], work: _Work) -> dict[str, Any]:
    """Runs a set-up; gives its document, or the reason why there is none."""
    ran = subprocess.run(list(row["words"]), stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False, text=True)
    result = {"number": row["number"], "file": row["file"], "digest": None, "reason": None}
    try:
        result["digest"] = json.dumps(json.loads(ran.stdout))
    except ValueError:
        said = ran.stderr.strip()
        result["reason"] = said or f"it ended with status {ran.returncode} and without an answer"
    return result


def _dry_run_words(script: str, common: Mapping[str, object], options: Mapping[str, object]) -> list[str]:
    """The command of a set-up."""
    own = {name: options.get(name, value) for name, value in common.items()}
    words = [sys.executable, "-m", "highwater", "dryrun", "--format", "json"]
    words += [word for name, value in own.items() if value is not None for word in (f"--{name}", str(value))]
    words += ["--python", sys.executable, script]
    given = {name: value for name, value in options.items() if name not in common}
    return words + [word for word in _script_words(given)]


def _script_words(options: Mapping[str, object]) -> Iterator[str]:
    for name, value in options.items():
        # A flag is given, or not.
        if value is True:
            yield name
        elif value is not False and value is not None:
            yield from (name, str(value))


def _may_pass(error: Exception) -> bool:
    """Whether an error of the storage may be gone the next time: not one that says that there is nothing, or no right."""
    return not isinstance(error, (FileNotFoundError, PermissionError, IsADirectoryError))
