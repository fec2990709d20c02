"""Snapshots: the facts of a recording."""

from __future__ import annotations

import json
import os
import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, Union

from highwater import _highwater
from highwater._documents import Check, Diff, Simulation
from highwater._errors import SnapshotError
from highwater._table import Table
from highwater._write import write_atomically

if TYPE_CHECKING:
    from highwater._viewer import Viewer

Source = Union[str, "os.PathLike[str]", bytes, bytearray, memoryview, dict[str, Any], list[Any]]
"""The inputs of :func:`load`: a path, the bytes of a file, or the result of ``torch.cuda.memory._snapshot()``."""

Size = Union[int, str]
"""Bytes, or a text such as ``"16GiB"``."""

RECORD = (
    "pass a path, the bytes of a file, or the result of `torch.cuda.memory._snapshot()`"
)


class Frame(NamedTuple):
    """A frame of a stack."""

    name: str
    filename: str
    line: int


class Snapshot:
    """A memory snapshot that was read and analysed; :func:`load` returns one.

    Its numbers are those that the ``highwater`` command prints. Long calls let other threads run.
    """

    __slots__ = ("_name", "_native", "_path", "_report")

    def __init__(self, native: _highwater.Snapshot, name: str, path: Path | None) -> None:
        self._native = native
        self._name = name
        self._path = path
        self._report: dict[str, Any] | None = None

    @property
    def name(self) -> str:
        """The source: the file's name, ``bytes`` or ``snapshot``."""
        return self._name

    @property
    def devices(self) -> list[int]:
        """The devices with entries or segments."""
        return self._native.devices

    # What it says as a whole.

    def report(self) -> dict[str, Any]:
        """The document of ``highwater report --format json``."""
        return json.loads(self._native.report_json())  # type: ignore[no-any-return]

    @property
    def text(self) -> str:
        """The text of ``highwater report``, as the command writes it into a pipe."""
        return self._native.report_text(self._name, None)

    def peak(self, device: int | None = None) -> dict[str, int | None]:
        """The highest totals of a device, each with the entry after which it is first reached.

        ``device`` may be left out if there is only one.
        """
        return self._device(device)["peak"]  # type: ignore[no-any-return]

    def explain(self, message: str | None = None) -> str:
        """The text of ``highwater explain``: why a request failed, and how to fix it.

        ``message`` is the text of the error, if you have it. Raises :class:`SnapshotError` if no request failed.
        """
        return self._native.explain_text(message, self._name)

    # Columns.

    def timeline(self, device: int | None = None) -> Table:
        """Every trace entry, with the totals after it."""
        return Table(self._native.timeline(device), "entries")

    def lifetimes(self, device: int | None = None) -> Table:
        """Every use of an address, from the entry that allocated it to those that freed it."""
        return Table(self._native.lifetimes(device), "lifetimes")

    def live(self, at: int | str = "peak", device: int | None = None) -> Table:
        """The active blocks at a moment: after entry ``at``, at the ``"peak"``, at the ``"end"``, or at the ``"oom"``.

        ``"oom"`` is the first request that failed. If no request failed, this raises :class:`SnapshotError`.
        """
        return Table(self._native.live(str(at), device), "live blocks")

    def stack(self, stack: int) -> list[Frame]:
        """The frames of a stack, innermost first; ``stack`` is a value of the columns of that name."""
        return [Frame(*frame) for frame in self._native.stack(stack)]

    # Questions.

    def simulate(
        self,
        conf: str | Sequence[str] = (),
        *,
        capacity: Size | Sequence[Size] = (),
        card: Size | Sequence[Size] = (),
        torch: str | None = None,
        device: int | None = None,
    ) -> Simulation:
        """Runs the recorded program with other settings or memory, as ``highwater simulate --format json`` does.

        ``conf`` gives settings as in ``PYTORCH_ALLOC_CONF``, ``capacity`` a limit on reserved memory, ``card`` a GPU by its name or
        its memory, and ``torch`` the version whose rules apply. Each may be one value or several. Without any, the answer is the least
        memory that is enough, and better settings, if there are any. The document prints as the command's text.
        """
        document, text = self._native.simulate_json(
            self._name, _several(conf), _several(capacity), _several(card), torch, device
        )
        return Simulation(json.loads(document), text)

    def diff(
        self, *others: Snapshot, at: str | None = None, device: int | None = None
    ) -> Diff:
        """Compares others with this one, as ``highwater diff --format json`` does. The document prints as the command's text.

        ``at`` is ``"peak"``, ``"end"`` or ``"iteration:N"``.
        """
        if not others:
            raise TypeError("diff() needs a snapshot to compare with")
        natives = [_native_of(other) for other in others]
        names = [self._name, *(other.name for other in others)]
        document, text = self._native.diff_json(natives, names, at, device)
        return Diff(json.loads(document), text)

    def check(
        self,
        *,
        peak_requested: Size | None = None,
        peak_allocated: Size | None = None,
        peak_reserved: Size | None = None,
        growth_per_iteration: Size | None = None,
        fragmentation: float | str | None = None,
        device: int | None = None,
    ) -> Check:
        """Checks it against budgets, like ``highwater check``.

        ``fragmentation`` is a share, such as ``0.1`` or ``"10%"``.
        """
        share = f"{fragmentation * 100}%" if isinstance(fragmentation, float) else fragmentation
        budgets = {
            "max-peak-requested": peak_requested,
            "max-peak-allocated": peak_allocated,
            "max-peak-reserved": peak_reserved,
            "max-growth-per-iteration": growth_per_iteration,
            "max-fragmentation": share,
        }
        given = [(rule, str(limit)) for rule, limit in budgets.items() if limit is not None]
        document, text = self._native.check_json(given, device)
        return Check(json.loads(document), text)

    # Looking.

    def view(self, *, block: bool | None = None, open_browser: bool = True) -> Viewer:
        """Opens the viewer in the browser.

        The viewer runs while the returned :class:`Viewer` is open. ``block`` waits until Ctrl-C, which scripts need; it is the
        default outside interactive sessions.
        """
        from highwater._viewer import serve

        return serve(self, block=block, open_browser=open_browser)

    def to_html(
        self, path: str | os.PathLike[str] | None = None, *, what_if: bool | None = None
    ) -> str | None:
        """Writes the viewer and the whole snapshot as one page; returns the page if there is no path.

        ``what_if`` includes the simulator's answers. By default they are included only if they are quick.
        """
        page = self._native.html(self._name, what_if)
        if path is None:
            return page.decode()
        _written(path, page)
        return None

    def to_pickle(self, path: str | os.PathLike[str]) -> None:
        """Writes the snapshot in PyTorch's format."""
        _written(path, self._native.pickle())

    def to_parquet(
        self,
        out: str | os.PathLike[str],
        *,
        run: str | None = None,
        rank: int | None = None,
        entries: bool = False,
        force: bool = False,
    ) -> None:
        """Writes its tables into a folder, beside those of other snapshots, for :func:`highwater.sql`, polars, pandas and Spark.

        ``run`` and ``rank`` are taken from the file's name by default. ``entries`` also writes the table of all entries.
        ``force`` replaces existing files; without it, they raise :class:`FileExistsError`.
        """
        file = self._name if self._path is None else str(self._path)
        named, numbered = _highwater.run_of_path(file)
        about = (run or named, numbered if rank is None else rank)
        self._native.write_tables(os.fspath(out), file, *about, 0, entries, force)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        from highwater._html import pretty
        from highwater._notebook import LINE

        pretty(printer, self, lambda: self._native.report_text(self.name, LINE))

    def _repr_html_(self) -> str:
        from highwater._notebook import html

        return html(self)

    def __repr__(self) -> str:
        report = self._known()
        entries = sum(device["entries"] for device in report["devices"])
        devices = ", ".join(str(device) for device in self.devices) or "none"
        text = f"{self._name}: {entries:,} entries, device {devices}: {report['verdict']}"
        # Names come from the file, and must not move the cursor.
        return f"<highwater.Snapshot {''.join(c if c.isprintable() else '?' for c in _line(text))}>"

    def _known(self) -> dict[str, Any]:
        """The report, made once."""
        if self._report is None:
            self._report = self.report()
        return self._report

    def _device(self, device: int | None) -> dict[str, Any]:
        """A device's part of the report."""
        devices = self._known()["devices"]
        chosen = [one for one in devices if device is None or one["device"] == device]
        if len(chosen) == 1:
            return chosen[0]  # type: ignore[no-any-return]
        has = ", ".join(str(one["device"]) for one in devices) or "none"
        if not chosen:
            what = "no devices" if device is None else f"no data for device {device}"
            raise SnapshotError(f"the snapshot has {what}", hint=f"its devices: {has}")
        raise SnapshotError("the snapshot has several devices", hint=f"say which: {has}")


def load(source: Source, *, allow_any_size: bool = False) -> Snapshot:
    """Reads a snapshot: pickle, JSON or HTML page, compressed or not.

    Nothing in the file is executed. A damaged file gives its readable part, with ``report()["warnings"]``. If no part is readable, or a
    compressed file unpacks to more than 64 MiB and more than 200 times its size, this raises :class:`SnapshotError`.
    ``allow_any_size`` lifts the limit on size.
    """
    if isinstance(source, (str, os.PathLike)):
        path = Path(source)
        native = _highwater.Snapshot.read_file(str(path), f"`{path}`", allow_any_size)
        return Snapshot(native, path.name, path)
    if isinstance(source, (bytes, bytearray, memoryview)):
        return _of_bytes(bytes(source), "bytes", "the input", allow_any_size)
    if isinstance(source, (dict, list)):
        return _of_bytes(_pickled(source), "snapshot", "the snapshot", allow_any_size)
    raise TypeError(f"cannot load a snapshot from {type(source).__name__}: {RECORD}")


def _of_bytes(data: bytes, name: str, called: str, allow_any_size: bool) -> Snapshot:
    return Snapshot(_highwater.Snapshot.read_bytes(data, called, allow_any_size), name, None)


def _pickled(snapshot: dict[str, Any] | list[Any]) -> bytes:
    """The bytes that the reader needs: it refuses anything but plain data."""
    if isinstance(snapshot, dict) and not isinstance(snapshot.get("segments"), list):
        raise SnapshotError(
            "the dict is not a memory snapshot: it has no list `segments`", hint=RECORD
        )
    try:
        return pickle.dumps(snapshot, protocol=4)
    except (pickle.PicklingError, TypeError, AttributeError, RecursionError) as error:
        raise SnapshotError(f"the snapshot is not plain data: {error}", hint=RECORD) from error


def _written(path: str | os.PathLike[str], data: bytes) -> None:
    def write(file: BinaryIO) -> None:
        file.write(data)

    write_atomically(Path(path), write)


def _native_of(snapshot: Snapshot) -> _highwater.Snapshot:
    if not isinstance(snapshot, Snapshot):
        raise TypeError(f"expected a Snapshot, found {type(snapshot).__name__}: `highwater.load` makes one")
    return snapshot._native


def _several(given: Size | Sequence[Size]) -> list[str]:
    """One or several, in the words of the command line."""
    if isinstance(given, (str, int)):
        return [str(given)]
    return [str(one) for one in given]


def _line(text: str) -> str:
    """A text on one line."""
    return " ".join(text.split())
