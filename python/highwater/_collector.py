"""Observes the runs of Python's garbage collector.

A flag makes the collector keep its garbage (``gc.DEBUG_SAVEALL``) only when it is about to free a tensor. To detect that, each
tensor that it may free gets a weak reference with a callback before it runs. Those callbacks are the first that the collector
calls for unreachable objects, before any finalizer and before anything is taken apart, and it reads its flags after that. So a
collection that finds no tensor costs one check of the types of the objects, and one that finds some delivers them whole. A second
collection, right after the first, frees them. The weak references last for one collection only, because
``torch.utils.swap_tensors`` refuses tensors that have any.

A tensor that is older than the garbage it hangs on is in none of that: the collector looks at young objects, frees some, and the last
reference to the tensor goes with them. So before the collector examines only the young, the reference counts show whether there
may be such a tensor, and only then the objects to be freed are computed.
"""

from __future__ import annotations

import _thread
import atexit
import collections
import contextlib
import gc
import os
import sys
import threading
import time
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import FrameType
from typing import Any, Protocol

from highwater._highwater import LastLook, held_by, instances, may_hold, unreachable


_ROUNDS = 3
"""How often garbage waits because new garbage was found with it, as when many threads leak."""


@dataclass(frozen=True)
class Collection:
    """A run of the collector that freed tensors.

    ``garbage`` is the garbage with everything that it holds. ``dead`` is the number of unreachable tensors that the watcher
    observes. Some may have been freed by finalizers since, and are no longer in ``garbage``. ``seen`` are the ids of tensors in
    it that an earlier run delivered and that are still to be freed. ``since`` is the time of the last run of this generation or
    an older one (``time.monotonic()``), if it is known.
    """

    generation: int
    garbage: list[Any]
    dead: int
    seen: frozenset[int]
    since: float | None


class Watcher(Protocol):
    """An observer of the finds."""

    def types(self) -> list[type]:
        """The types of tensors, exactly."""

    def wants(self, tensor: Any) -> bool:
        """Whether it is about this tensor."""

    def examine(self, collection: Collection) -> Callable[[], None]:
        """Examines garbage that lives no longer than this call; returns the work to do after it is freed."""


class _Probe(weakref.ref[Any]):
    """A weak reference that knows its watcher."""

    __slots__ = ("watchers",)
    watchers: tuple[Watcher, ...]


class Collector:
    """The one callback that serves all watchers."""

    def __init__(self) -> None:
        self._watchers: list[Watcher] = []
        self._lock = threading.RLock()
        self._looked: dict[int, float] = {}
        self._last_look = LastLook(self._died)
        self._outbox: collections.deque[Callable[[], None]] = collections.deque()
        self._delivering = threading.RLock()
        self._reset()
        atexit.register(self._shut)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forked)

    def _reset(self) -> None:
        self._probes: list[_Probe] = []
        self._last_look.clear()
        self._is_due = False
        self._thread: int | None = None
        self._trigger: FrameType | int | None = None
        self._dead: dict[int, int] = {}
        self._is_saving = False
        self._mark = 0
        # The generation whose collection frees what was handed over, the tensors in that, and how often it found new ones instead.
        self._pending: int | None = None
        self._seen: frozenset[int] = frozenset()
        self._rounds = 0
        self._runs = 0

    def add(self, watcher: Watcher) -> None:
        """Adds a watcher."""
        with self._lock:
            self._watchers = [*self._watchers, watcher]
            if self._on_collection not in gc.callbacks:
                gc.callbacks.extend((self._on_collection, self._last_look))

    def remove(self, watcher: Watcher) -> None:
        """Frees kept garbage, delivers all reports, and removes a watcher."""
        self.settle()
        with self._lock:
            self._watchers = [other for other in self._watchers if other is not watcher]
            if not self._watchers:
                self._unhook()
                self._looked.clear()

    def settle(self) -> None:
        """Frees garbage kept for examination, and waits until all finds are delivered."""
        while self._pending is not None and self._free():
            pass
        self._deliver()

    def _on_collection(self, phase: str, info: dict[str, int]) -> None:
        self._runs += 1
        generation = info["generation"]
        if self._thread not in (None, _thread.get_ident()):
            # Python 3.12 begins one in a thread while the callbacks of another run: that is looked at before it frees anything.
            if phase == "start":
                self._look_ahead(generation, _looked_at(generation))
        elif phase == "start":
            self._begin(generation)
        else:
            self._end(generation)

    def _begin(self, generation: int) -> None:
        """Puts a probe on each tensor that may be freed."""
        kinds = self._kinds()
        self._dead.clear()
        self._is_saving = False
        self._is_due = False
        self._thread = _thread.get_ident()
        # Weak references that the collector itself clears have their callbacks called from where the collection began; those of
        # what a finalizer frees are called from the finalizer.
        self._trigger = id(_caller(3))
        self._mark = len(gc.garbage)
        if not kinds:
            return
        objects = _looked_at(generation)
        if self._rounds >= _ROUNDS:
            self._look_ahead(generation, objects)
            return
        tensors = instances(objects, kinds)
        if generation < 2 and may_hold(objects, kinds):
            _, older = _doomed(objects)
            for tensor in instances(older, kinds):
                wanted = self._wanting(tensor)
                if wanted:
                    self._count(wanted)
        del objects
        seen = set(self._seen)
        for tensor in tensors:
            wanted = self._wanting(tensor)
            if wanted:
                probe = _Probe(tensor, self._died)
                probe.watchers = wanted
                self._probes.append(probe)
            seen.add(id(tensor))
        self._last_look.expect(kinds, seen)

    def _wanting(self, tensor: Any) -> tuple[Watcher, ...]:
        """The watchers of a tensor that was not delivered yet."""
        if id(tensor) in self._seen:
            return ()
        return tuple(watcher for watcher in self._watchers if watcher.wants(tensor))

    def _look_ahead(self, generation: int, objects: list[Any]) -> None:
        """Examines garbage before it is freed: keeping it again and again might never end."""
        garbage, older = _doomed(objects)
        garbage += older
        self._examine(generation, garbage, {})
        if self._is_saving:
            # The run in the other thread will find them kept.
            self._seen |= {id(tensor) for tensor in instances(garbage, self._kinds())}

    def _examine(self, generation: int, garbage: list[Any], dead: Mapping[int, int]) -> None:
        """Has the watchers examine garbage; ``dead`` are the tensors that are known to have been in it."""
        since = max((at for older, at in self._looked.items() if older >= generation), default=None)
        there = collections.Counter(id(who) for tensor in instances(garbage, self._kinds()) for who in self._wanting(tensor))
        for watcher in self._watchers:
            count = max(dead.get(id(watcher), 0), there[id(watcher)])
            if count:
                self._outbox.append(watcher.examine(Collection(generation, garbage, count, self._seen, since)))

    def _kinds(self) -> list[type]:
        """The types that any watcher observes."""
        return list({id(kind): kind for watcher in self._watchers for kind in watcher.types()}.values())

    def _died(self, probe: weakref.ref[Any]) -> None:
        """The collector calls it for a tensor that is garbage."""
        if self._thread != _thread.get_ident() or id(_caller(2)) != self._trigger:
            return
        # Who wants a tensor that the last look found is asked when it is in the garbage.
        self._count(probe.watchers if isinstance(probe, _Probe) else ())

    def _count(self, watchers: tuple[Watcher, ...]) -> None:
        """A watched tensor is garbage: the collector must keep its finds."""
        for watcher in watchers:
            self._dead[id(watcher)] = self._dead.get(id(watcher), 0) + 1
        self._is_due = True
        flags = gc.get_debug()
        if not flags & gc.DEBUG_SAVEALL:
            self._is_saving = True
            gc.set_debug(flags | gc.DEBUG_SAVEALL)

    def _end(self, generation: int) -> None:
        """Examines the garbage that the collector kept, or records that all earlier garbage is freed."""
        now = time.monotonic()
        self._probes.clear()
        self._last_look.clear()
        try:
            if self._is_due:
                self._look(generation)
            elif self._pending is not None and generation >= self._pending:
                self._pending = None
                self._seen = frozenset()
                self._rounds = 0
        finally:
            self._looked[generation] = now
            self._thread = None

    def _look(self, generation: int) -> None:
        """Examines the garbage that the collector kept."""
        garbage = gc.garbage[self._mark :]
        try:
            if generation < 2:
                garbage += held_by(garbage)
            self._examine(generation, garbage, self._dead)
        finally:
            self._dead.clear()
            if self._is_saving:
                self._is_saving = False
                gc.set_debug(gc.get_debug() & ~gc.DEBUG_SAVEALL)
                del gc.garbage[self._mark :]
                # What is found while something waits to be freed waits with it, but not for ever.
                self._rounds += self._pending is not None and generation >= self._pending
                self._seen |= {id(tensor) for tensor in instances(garbage, self._kinds())}
                self._pending = max(self._pending or 0, _following(generation))
                self._follow_soon()
            else:
                # The program itself keeps its garbage: it stays what the program's own setting makes of it.
                self._spawn(self._deliver)

    def _follow_soon(self) -> None:
        """Runs the second collection at the next call or return in this thread: within a callback there can be none."""
        profile = sys.getprofile()
        if profile is None:
            sys.setprofile(self._next_event)
        elif profile != self._next_event:
            # The place is taken, by a profiler.
            self._spawn(self.settle)

    def _next_event(self, frame: FrameType, event: str, argument: Any) -> None:
        while self._pending is not None:
            if not self._free():
                # Still within the callbacks of the collection.
                return
        sys.setprofile(None)
        self._spawn(self._deliver)

    def _free(self) -> bool:
        """The second collection; false if one is running already."""
        generation = self._pending
        if generation is None:
            return True
        runs = self._runs
        is_extra = self._on_collection not in gc.callbacks
        if is_extra:
            # The last watcher is gone, and what was found for it is still here.
            gc.callbacks.append(self._on_collection)
        try:
            gc.collect(generation)
        finally:
            if is_extra:
                gc.callbacks.remove(self._on_collection)
        return self._runs != runs

    def _spawn(self, work: Callable[[], None]) -> None:
        """Does something in a separate thread, which can wait for any lock of the interrupted program."""
        try:
            _thread.start_new_thread(work, ())
        except RuntimeError:
            # No more threads: at the end of the process `_shut` does it.
            pass

    def _deliver(self) -> None:
        with self._delivering:
            while self._outbox:
                try:
                    due = self._outbox.popleft()
                except IndexError:
                    return
                try:
                    due()
                except Exception:
                    # The user's callback failed. It is said as of a thread's failure; what was interrupted is not to blame.
                    kind, value, where = sys.exc_info()
                    assert kind is not None
                    threading.excepthook(threading.ExceptHookArgs((kind, value, where, threading.current_thread())))

    def _forked(self) -> None:
        """The child has no other thread, and does not report the parent's finds."""
        pending, seen = self._pending, self._seen
        self._lock = threading.RLock()
        self._delivering = threading.RLock()
        self._outbox.clear()
        self._reset()
        self._pending, self._seen = pending, seen

    def _shut(self) -> None:
        """At the end of the process modules vanish, and a callback needs them."""
        self._unhook()
        self.settle()

    def _unhook(self) -> None:
        for callback in (self._on_collection, self._last_look):
            with contextlib.suppress(ValueError):
                gc.callbacks.remove(callback)


def _caller(depth: int) -> FrameType | None:
    """The frame that many calls up, if there is one: a thread of another language has none."""
    try:
        return sys._getframe(depth)
    except ValueError:
        return None


def _looked_at(generation: int) -> list[Any]:
    """The objects that a collection of a generation examines, or more."""
    if sys.version_info >= (3, 14) and generation > 0:
        # An increment of the old generation, of which nobody says what is in it.
        return gc.get_objects()
    # Before there is another list of them: that would be one of the youngest, and hold itself.
    youngest = gc.get_objects(generation=0)
    if generation == 0:
        return youngest
    # The oldest are by far the most, and so not copied.
    objects = gc.get_objects(generation=generation)
    for younger in range(1, generation):
        objects += gc.get_objects(generation=younger)
    objects += youngest
    return objects


def _doomed(objects: list[Any]) -> tuple[list[Any], list[Any]]:
    """The garbage of a collection of these objects, with everything that it holds; empties the list, because its references
    count."""
    garbage = unreachable(objects)
    objects.clear()
    return garbage, held_by(garbage)


def _following(generation: int) -> int:
    """The generation with the objects that a collection has kept."""
    return 2 if sys.version_info >= (3, 14) else min(generation + 1, 2)


collector = Collector()
