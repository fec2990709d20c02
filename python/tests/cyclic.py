"""Programs that make reference cycles with tensors: what the tests of the cycle detector have in common."""

from __future__ import annotations

import functools
import gc
import re
import sys
import types
import weakref
from collections import deque, namedtuple
from collections.abc import Callable, Iterator
from typing import Any

from fake_tensors import Box, FakeTensor

from highwater import cycles
from highwater._collector import collector
from highwater.cycles import Report

def find(**options: Any) -> Report:
    """Looks now, for made-up tensors."""
    return cycles.find(tensor_type=FakeTensor, **options)


def is_hooked() -> bool:
    """Whether the collector tells us anything."""
    return collector._on_collection in gc.callbacks


def tensors() -> int:
    """Tensors that are there."""
    return sum(isinstance(obj, FakeTensor) for obj in gc.get_objects())


# The set: each makes garbage, and says how the tensor hangs on its cycle and which references close that.


def itself() -> None:
    box = Box(t=FakeTensor())
    box.me = box


def tensor_on_the_cycle() -> None:
    tensor: Any = FakeTensor()
    tensor.me = tensor


def closure() -> None:
    tensor = FakeTensor()

    def again(n: int) -> Any:
        return again(n - 1) if n else tensor


def closure_over_its_object() -> None:
    box = Box(t=FakeTensor())
    box.hook = lambda: box


def default_argument() -> None:
    def function(kept: Any = FakeTensor()) -> None:  # noqa: B008
        pass

    function.me = function  # type: ignore[attr-defined]


def bound_method() -> None:
    class Owner:
        def __init__(self) -> None:
            self.t = FakeTensor()
            self.callback = self.method

        def method(self) -> None: ...

    Owner()


raised: list[None] = []


def exception_kept() -> None:
    tensor = FakeTensor()
    try:
        raise ValueError
    except ValueError as error:
        kept = error
    raised.append(None)


def partial() -> None:
    box = Box(t=FakeTensor())
    box.call = functools.partial(print, box)


def hooks_of_a_module() -> None:
    module = Box(_parameters={"weight": FakeTensor()}, _forward_hooks={})
    module._forward_hooks[7] = lambda *_: module


def nested_containers() -> None:
    box = Box()
    box.parts = {"first": [1, ({"x": FakeTensor()}, 2)]}
    box.back = [[box]]


def slots() -> None:
    class Slotted:
        __slots__ = ("me", "t")

    slotted: Any = Slotted()
    slotted.me = slotted
    slotted.t = FakeTensor()


Pair = namedtuple("Pair", ["first", "second"])


def named_tuple() -> None:
    box = Box()
    box.pair = Pair(box, FakeTensor())


def set_and_deque() -> None:
    box = Box(t=deque([None, FakeTensor()]))
    box.all = {box}


def derived_containers() -> None:
    class Own(dict[str, Any]):
        pass

    own = Own()
    own["me"] = own
    own["t"] = FakeTensor()


def finalizer() -> None:
    class Closing:
        def __init__(self) -> None:
            self.me = self
            self.t = FakeTensor()

        def __del__(self) -> None:
            closed.append(type(self).__name__)

    Closing()


closed: list[str] = []


def across_modules() -> None:
    one, two = types.ModuleType("one"), types.ModuleType("two")
    one.two = two  # type: ignore[attr-defined]
    two.one = one  # type: ignore[attr-defined]
    two.cache = {3: FakeTensor()}  # type: ignore[attr-defined]


def class_attribute() -> None:
    class Holder:
        cache = FakeTensor()


def long_way() -> None:
    box = Box(a=Box(b=Box(c=[FakeTensor()])))
    box.me = box


SET: list[tuple[Callable[[], None], str, list[str]]] = [
    (itself, "Box.t", ["Box.me"]),
    (tensor_on_the_cycle, "FakeTensor", ["FakeTensor.me"]),
    (closure, "function closure.<locals>.again (HERE:LINE) closure `tensor`", ["function closure.<locals>.again (HERE:LINE) closure `again`"]),
    (
        closure_over_its_object,
        "Box.t",
        ["Box.hook", "function closure_over_its_object.<locals>.<lambda> (HERE:LINE) closure `box`"],
    ),
    (default_argument, "function default_argument.<locals>.function (HERE:LINE).__defaults__[0]", ["function default_argument.<locals>.function (HERE:LINE).me"]),
    (bound_method, "Owner.t", ["Owner.callback", "method bound_method.<locals>.Owner.method (HERE:LINE).__self__"]),
    (
        exception_kept,
        "frame exception_kept (HERE:LINE) local `tensor`",
        ["frame exception_kept (HERE:LINE) local `kept`", "ValueError.__traceback__", "traceback exception_kept (HERE:LINE).tb_frame"],
    ),
    (partial, "Box.t", ["Box.call", "partial.args", "tuple[0]"]),
    (
        hooks_of_a_module,
        "Box._parameters['weight']",
        ["Box._forward_hooks", "dict[7]", "function hooks_of_a_module.<locals>.<lambda> (HERE:LINE) closure `module`"],
    ),
    (nested_containers, "Box.parts['first'][1][0]['x']", ["Box.back", "list[0]", "list[0]"]),
    (slots, "Slotted.t", ["Slotted.me"]),
    (named_tuple, "Pair.second", ["Pair.first", "Box.pair"]),
    (set_and_deque, "Box.t[1]", ["Box.all", "set element"]),
    (derived_containers, "Own['t']", ["Own['me']"]),
    (finalizer, "Closing.t", ["Closing.me"]),
    (across_modules, "module two.cache[3]", ["module two.one", "module one.two"]),
    (class_attribute, "type class_attribute.<locals>.Holder.cache", ["type class_attribute.<locals>.Holder.__dict__", "getset_descriptor.__objclass__"]),
    (long_way, "Box.a.b.c[0]", ["Box.me"]),
]


def plain(text: str) -> str:
    """Without the place of this file and its lines."""
    return re.sub(rf"\({re.escape(__file__)}:\d+\)", "(HERE:LINE)", text)


# What leaves nothing to the collector.


def no_cycle() -> None:
    box = Box(t=FakeTensor())
    box.list = [box.t, {"t": box.t}]


def weak_cycle() -> None:
    box = Box(t=FakeTensor())
    box.child = Box(parent=weakref.ref(box), proxy=weakref.proxy(box))


def exception_let_go() -> None:
    tensor = FakeTensor()
    try:
        raise ValueError(tensor)
    except ValueError:
        pass


def cycle_without_a_tensor() -> None:
    box = Box()
    box.me = box
