"""The finds in the garbage of a collection, as plain facts: a report keeps no object alive."""

from __future__ import annotations

import gc
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from highwater._highwater import keepers, size
from highwater._references import Step, is_hidden, type_name, way

_NUMBER = re.compile(r"\[\d+\]")

LIMIT = 10_000
"""Tensors of one collection that are described, the largest first; the totals count all."""


@dataclass(frozen=True)
class Kept:
    """A tensor that only the garbage collector can free.

    Attributes
    ----------
    type, dtype, device, shape
        Its properties; empty if a tensor class lacks them.
    size_bytes
        The size of its storage, which other tensors may share; 0 if it has none.
    storage
        A number that is the same for tensors that share a storage.
    path
        The way from an object on the cycle to the tensor; empty if the tensor is on the cycle itself.
    cycle
        The smallest cycle through the object where the path begins, as the way from it to itself; empty if it is not known.
    is_only_cycle
        Whether nothing else keeps it: without any one reference of the cycle, the tensor would have been freed at once.
    number
        The tensor, as a number that is its own in the report.
    """

    type: str
    dtype: str
    device: str
    shape: tuple[int, ...]
    size_bytes: int
    storage: int
    path: tuple[Step, ...]
    cycle: tuple[Step, ...]
    is_only_cycle: bool
    number: int

    @property
    def attribute_path(self) -> str:
        """The way to it in one line, such as ``Node.t`` or ``list[3]``."""
        if not self.path:
            return self.type.rpartition(".")[2]
        return self.path[0].label + "".join(step.reference for step in self.path)

    @property
    def text(self) -> str:
        """The tensor in one line."""
        words = [self.type.rpartition(".")[2], self.dtype.removeprefix("torch.")]
        words.append("×".join(map(str, self.shape)) if self.shape else "")
        words.append(f"on {self.device}" if self.device else "")
        return f"{' '.join(filter(None, words))}, {size(self.size_bytes)}"


@dataclass(frozen=True)
class Cycle:
    """Objects that keep each other, and the tensors that they keep.

    Attributes
    ----------
    steps
        The smallest cycle that was found among them; each step refers to the next, and the last to the first.
    tensors
        The tensors that they keep alive, the largest first. A tensor belongs to the nearest cycle that leads to it.
    size_bytes
        The storages of these tensors, each counted once.
    objects
        The number of objects that keep each other alive; more than the steps if there are further cycles through the same objects.
    """

    steps: tuple[Step, ...]
    tensors: tuple[Kept, ...]
    size_bytes: int
    objects: int

    @property
    def signature(self) -> tuple[str, ...]:
        """The same for cycles that the same code makes; numbers, such as those of hooks, may differ."""
        steps = (*self.steps, *self.tensors[0].path)
        return tuple(f"{step.type}{step.name or ''}{_NUMBER.sub('[]', step.reference)}" for step in steps)

    @property
    def text(self) -> str:
        """The cycle and its tensors, in a few lines."""
        tensors = f"{len(self.tensors):,} tensor{'s' if len(self.tensors) != 1 else ''}"
        if not self.steps:
            lines = [f"{size(self.size_bytes)} in {tensors}, kept by something that the collector cannot look into"]
        else:
            objects = f"{self.objects:,} object{'s that refer to each other' if self.objects != 1 else ' that refers to itself'}"
            lines = [f"{size(self.size_bytes)} in {tensors}, kept by {objects}"]
            steps = [step.text for step in self.steps] + [self.steps[0].label]
            lines += [f"    {'→ ' if at else '  '}{text}" for at, text in enumerate(steps)]
        shown = self.tensors[:3]
        lines += [
            f"  {kept.attribute_path} is a {kept.text}" if kept.path else f"  on the cycle itself: {kept.text}" for kept in shown
        ]
        if len(self.tensors) > len(shown):
            lines.append(f"  and {len(self.tensors) - len(shown):,} more")
        if not all(kept.is_only_cycle for kept in self.tensors) and self.steps:
            lines.append("  There are further cycles that keep some of it.")
        return "\n".join(lines)


@dataclass(frozen=True)
class Kind:
    """Cycles that the same code makes.

    Attributes
    ----------
    cycles
        At least one, the most bytes first.
    size_bytes
        The bytes that they keep together.
    """

    cycles: tuple[Cycle, ...]
    size_bytes: int

    @property
    def others(self) -> str:
        """How many there are beside the first, in words; empty if there are none."""
        count = len(self.cycles) - 1
        return f"and {count:,} more like it, {size(self.size_bytes)} in all" if count else ""


@dataclass(frozen=True)
class Report:
    """The tensors that a run of the garbage collector freed, and what had kept them.

    True if there are any.

    Attributes
    ----------
    cycles
        The cycles that keep tensors, the most bytes first; ``kinds`` has them by the code that makes them.
    size_bytes
        The storages of all these tensors, each counted once. A storage that a tensor elsewhere shares stays.
    tensors
        The number of tensors.
    lost
        The number of further tensors that finalizers of the garbage freed before they could be examined, such as the local variables
        of a suspended generator.
    generation
        The collected generation: 2 is everything.
    waited_at_most_secs
        The longest time that the tensors can have been out of use: at the previous collection, they were in use or did not exist.
        ``None`` if there was no earlier collection. The time of the last use is not recorded anywhere.
    """

    cycles: tuple[Cycle, ...] = ()
    size_bytes: int = 0
    tensors: int = 0
    lost: int = 0
    generation: int = 2
    waited_at_most_secs: float | None = None
    _omitted: int = field(default=0, repr=False)

    def __bool__(self) -> bool:
        return self.tensors > 0 or self.lost > 0

    def __str__(self) -> str:
        return self.text

    @property
    def text(self) -> str:
        """The report in words."""
        if not self:
            return "no tensors were left to the garbage collector"
        lines = [self.headline]
        for kind in self.kinds[:10]:
            lines += [kind.cycles[0].text, *([f"  {kind.others}"] if kind.others else [])]
        return "\n".join([*lines, *self._rest()])

    @property
    def kinds(self) -> list[Kind]:
        """The cycles by the code that makes them, the most bytes first."""
        kinds: dict[tuple[str, ...], list[Cycle]] = {}
        for cycle in self.cycles:
            kinds.setdefault(cycle.signature, []).append(cycle)
        found = [Kind(tuple(cycles), sum(cycle.size_bytes for cycle in cycles)) for cycles in kinds.values()]
        return sorted(found, key=lambda kind: -kind.size_bytes)

    @property
    def headline(self) -> str:
        """The report in one line."""
        parts = []
        if self.tensors:
            what = "1 tensor" if self.tensors == 1 else f"{self.tensors:,} tensors"
            parts.append(f"only the garbage collector could free {what} ({size(self.size_bytes)})")
        if self.lost:
            what = "1 tensor" if self.lost == 1 else f"{self.lost:,} tensors"
            parts.append(f"finalizers of garbage freed {what}, as when a suspended generator is closed")
        if self.waited_at_most_secs is not None:
            parts.append(f"out of use for at most {self.waited_at_most_secs:.3g} s")
        return "; ".join(parts)

    def _rest(self) -> list[str]:
        rest = []
        if len(self.kinds) > 10:
            rest.append(f"and {len(self.kinds) - 10:,} more kinds of cycles")
        if self._omitted:
            rest.append(f"{self._omitted:,} smaller tensors are counted, and not described")
        return rest

    def to_dot(self) -> str:
        """The cycles as a graph in Graphviz's language."""
        from highwater._cycle_page import dot

        return dot(self)

    def to_html(self, path: str | os.PathLike[str]) -> Path:
        """Writes the report as one page that needs nothing else.

        Parameters
        ----------
        path
            The file; it is written completely, or stays as it was.

        Returns
        -------
        Path
            The file.
        """
        from highwater._cycle_page import page
        from highwater._write import write_atomically

        written = Path(path)
        text = page(self).encode()

        def write(file: BinaryIO) -> None:
            file.write(text)

        write_atomically(written, write)
        return written


def examine(garbage: Sequence[Any], tensors: Sequence[Any], lost: int, generation: int, waited: float | None) -> Report:
    """Finds the objects that keep ``tensors`` alive in ``garbage``, which includes them."""
    storages: dict[int, int] = {}
    keys = [_storage(tensor, storages) for tensor in tensors]
    numbers = {key: number for number, key in enumerate(storages)}
    order = sorted(range(len(tensors)), key=lambda at: -storages[keys[at]])[:LIMIT]
    index = {id(obj): number for number, obj in enumerate(garbage)}
    nodes = [index[id(tensors[at])] for at in order]
    found, rows = _keepers(garbage, index, nodes)
    ways = _Ways(garbage, found)
    groups: dict[int, list[tuple[Kept, int | None]]] = {}
    for at, node, row in zip(order, nodes, rows, strict=True):
        cycle, path = ways.of(row) if row is not None else ((), ())
        group = -1 if row is None else found[row[0]][1]
        key = keys[at]
        kept = _kept(tensors[at], storages[key], numbers[key], path, cycle, row is not None and row[2], node)
        groups.setdefault(group, []).append((kept, None if row is None else found[row[0]][2]))
    cycles = [_cycle(members) for members in groups.values()]
    cycles.sort(key=lambda cycle: -cycle.size_bytes)
    return Report(
        cycles=tuple(cycles),
        size_bytes=sum(storages.values()),
        tensors=len(tensors),
        lost=max(lost, 0),
        generation=generation,
        waited_at_most_secs=waited,
        _omitted=len(tensors) - len(order),
    )


def _cycle(members: list[tuple[Kept, int | None]]) -> Cycle:
    tensors = tuple(kept for kept, _ in members)
    smallest = min((kept.cycle for kept in tensors), key=len)
    storages = {kept.storage: kept.size_bytes for kept in tensors}
    return Cycle(smallest, tensors, sum(storages.values()), members[0][1] or 0)


def _keepers(garbage: Sequence[Any], index: dict[int, int], asked: list[int]) -> tuple[Any, Any]:
    """Has the graph of the garbage searched."""
    sources: list[int] = []
    targets: list[int] = []
    find = index.get
    for number, obj in enumerate(garbage):
        for referent in gc.get_referents(obj):
            target = find(id(referent))
            if target is not None:
                sources.append(number)
                targets.append(target)
    return keepers(len(garbage), sources, targets, asked)


class _Ways:
    """The words for cycles and paths; a cycle is put into words once."""

    def __init__(self, garbage: Sequence[Any], cycles: Any) -> None:
        self._garbage = garbage
        self._cycles = cycles
        self._known: dict[int, tuple[list[int], tuple[Step, ...]]] = {}

    def of(self, row: tuple[int, list[int], bool]) -> tuple[tuple[Step, ...], tuple[Step, ...]]:
        """The cycle and the path of one tensor. Both begin at an object that a program knows by name."""
        number, path, _ = row
        if number not in self._known:
            turned = self._turned(self._cycles[number][0])
            self._known[number] = turned, self._steps([*turned, turned[0]])
        turned, steps = self._known[number]
        if len(path) == 1:
            # It is on the cycle.
            return steps, ()
        lead = turned[: turned.index(path[0])] if turned[0] != path[0] else []
        return steps, self._steps([*lead, *path])

    def _turned(self, nodes: list[int]) -> list[int]:
        """The cycle, begun so far back that its first object is not one of those that are left out."""
        objects = [self._garbage[node] for node in nodes]
        for back in range(len(nodes)):
            at = -back % len(nodes)
            if not is_hidden(objects[at - 1], objects[at]):
                return nodes[at:] + nodes[:at]
        return nodes

    def _steps(self, nodes: list[int]) -> tuple[Step, ...]:
        return tuple(way([self._garbage[node] for node in nodes], nodes))


def _kept(tensor: Any, held: int, storage: int, path: Any, cycle: Any, is_only: bool, node: int) -> Kept:
    shape = _told(lambda: tuple(int(extent) for extent in tensor.shape), ())
    dtype = _told(lambda: str(tensor.dtype), "")
    device = _told(lambda: str(tensor.device), "")
    return Kept(type_name(type(tensor)), dtype, device, shape, held, storage, path, cycle, is_only, node)


def _storage(tensor: Any, storages: dict[int, int]) -> int:
    """Notes the storage of a tensor; one that has none gets a number of its own."""
    try:
        storage = tensor.untyped_storage()
        key = getattr(storage, "_cdata", None)
        key, held = int(storage.data_ptr() if key is None else key), int(storage.nbytes())
    except Exception:
        # Sparse, nested, made up while tracing: of such tensors this is not known.
        key, held = -id(tensor), 0
    storages[key] = held
    return key


def _told(ask: Callable[[], Any], otherwise: Any) -> Any:
    try:
        return ask()
    except Exception:
        # A tensor class that does not say.
        return otherwise


