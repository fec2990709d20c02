"""How one object refers to another, in the words of a program: attributes, items, local variables.

The objects are garbage from the collector, so none of their code runs here: no ``__getattr__``, no property, no ``repr``.
"""

from __future__ import annotations

import gc
import types
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

UNNAMED = " (in a way that has no name)"

_SUSPENDED = ("gi", "cr", "ag")
_EXCEPTION = ("__traceback__", "__context__", "__cause__", "args")
_FUNCTION = ("__closure__", "__defaults__", "__kwdefaults__", "__dict__", "__globals__", "__annotations__")
_TRACEBACK = ("tb_next", "tb_frame")
_TENSOR = ("_backward_hooks", "_post_accumulate_grad_hooks", "grad", "grad_fn", "_base")


@dataclass(frozen=True)
class Step:
    """An object on the way to a tensor, and how it refers to the next.

    Attributes
    ----------
    type
        Its type, such as ``module.Node``, ``builtins.list``, ``builtins.function``.
    reference
        How it refers to the next: ``.attribute``, ``[3]``, ``['key']``, `` closure `name` ``, `` local `name` ``.
    name
        The function that an object is or belongs to: of functions, frames, generators, tracebacks. Of a class or a module, its own.
    file, line
        The place of that function, or its current line.
    number
        The object, as a number that is its own in the report.
    """

    type: str
    reference: str
    name: str | None
    file: str | None
    line: int | None
    number: int

    @property
    def text(self) -> str:
        """The object and its reference, such as ``Node.hook``."""
        return self.label + self.reference

    @property
    def label(self) -> str:
        """The object, such as ``Node`` or ``function leaky.<locals>.hook (train.py:12)``."""
        kind = self.type.rpartition(".")[2]
        if self.name is None:
            return kind
        where = f" ({self.file}:{self.line})" if self.file is not None else ""
        return f"{kind} {self.name}{where}"


def type_name(kind: type) -> str:
    """A type with its module."""
    return f"{type.__dict__['__module__'].__get__(kind)}.{type.__dict__['__qualname__'].__get__(kind)}"


def way(objects: Sequence[Any], numbers: Sequence[int]) -> list[Step]:
    """The steps from each object to the next; the last object has none of its own.

    Python's internal objects are left out: the dict of an object's attributes, the cells of a closure.
    """
    links = [_link(source, target) for source, target in zip(objects, objects[1:], strict=False)]
    steps = []
    at = 0
    while at < len(links):
        reference, taken = _merged(objects, links, at)
        name, file, line = _place(objects[at])
        steps.append(Step(type_name(type(objects[at])), reference, name, file, line, numbers[at]))
        at += taken
    return steps


def is_hidden(before: Any, obj: Any) -> bool:
    """Whether an object is one of those that :func:`way` leaves out after the one before it."""
    if type(obj) is types.CellType:
        return True
    if type(obj) is dict:
        return _link(before, obj) == ".__dict__"
    return type(obj) is tuple and _link(before, obj) == ".__closure__"


def _merged(objects: Sequence[Any], links: Sequence[str], at: int) -> tuple[str, int]:
    """The name of the reference, and its number of links."""
    link = links[at]
    rest = len(links) - at
    if link == ".__dict__" and rest > 1 and type(objects[at + 1]) is dict:
        return _attribute(links[at + 1]), 2
    if link == ".__closure__" and rest > 2 and type(objects[at + 2]) is types.CellType:
        names = objects[at].__code__.co_freevars
        index = int(links[at + 1][1:-1])
        return (f" closure `{names[index]}`" if index < len(names) else " closure"), 3
    if rest > 1 and type(objects[at + 1]) is types.CellType and type(objects[at]) is not tuple:
        return link, 2
    return link, 1


def _attribute(item: str) -> str:
    """``['name']`` in the dict of an object is ``.name``."""
    name = item[2:-2]
    return f".{name}" if item.startswith("['") and name.isidentifier() else f".__dict__{item}"


def _link(source: Any, target: Any) -> str:
    """How an object refers to another."""
    try:
        for name, value in _references(source, target):
            if value is target:
                return name
    except Exception:
        # Objects half taken apart: that there is a reference is known all the same.
        return UNNAMED
    return UNNAMED


def _references(source: Any, target: Any) -> Iterator[tuple[str, Any]]:
    """The references of an object, by name. Some that cost something are made for the target only."""
    kind: Any = type(source)
    if isinstance(source, types.FrameType):
        yield from _variables(source, target)
        yield from _attributes(source, ("f_back", "f_globals", "f_builtins", "f_trace", "f_code"))
        return
    if kind is types.CellType:
        yield ".cell_contents", source.cell_contents
        return
    if issubclass(kind, dict):
        for key, value in dict.items(source):
            yield f"[{_key(key)}]", value
        for key in dict.keys(source):
            yield f" key {_key(key)}", key
    elif issubclass(kind, (list, tuple)):
        fields = kind.__dict__.get("_fields", ()) if issubclass(kind, tuple) else ()
        items = list.__iter__(source) if issubclass(kind, list) else tuple.__iter__(source)
        for index, item in enumerate(items):
            yield (f".{fields[index]}" if index < len(fields) else f"[{index}]"), item
    elif issubclass(kind, (set, frozenset)):
        yield " element", target if any(item is target for item in set(source)) else None
    elif kind.__name__ == "deque" and kind.__module__ == "collections":
        for index, item in enumerate(source):
            yield f"[{index}]", item
    if kind is types.FunctionType:
        yield from _attributes(source, _FUNCTION)
    elif kind is types.TracebackType:
        yield from _attributes(source, _TRACEBACK)
    elif issubclass(kind, BaseException):
        yield from _attributes(source, _EXCEPTION, BaseException)
    elif isinstance(source, type):
        view = type.__dict__["__dict__"].__get__(source)
        yield from ((".__dict__", own) for own in gc.get_referents(view))
        yield from ((f".{name}", value) for name, value in view.items())
        yield ".__mro__", type.__dict__["__mro__"].__get__(source)
        yield ".__bases__", type.__dict__["__bases__"].__get__(source)
    elif kind in (types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType):
        yield from _suspended(source, target)
    if any(base.__name__ == "TensorBase" for base in kind.__mro__):
        yield from _attributes(source, _TENSOR)
    yield from _stored(source)
    if not isinstance(source, type):
        yield ".__class__", kind


def _attributes(source: Any, names: Sequence[str], owner: type | None = None) -> Iterator[tuple[str, Any]]:
    """Attributes that the interpreter defines."""
    for name in names:
        try:
            value = getattr(source, name) if owner is None else owner.__dict__[name].__get__(source)
        except Exception:
            continue
        yield f".{name}", value


def _stored(source: Any) -> Iterator[tuple[str, Any]]:
    """The contents of an object's slots and dict."""
    for base in type.__dict__["__mro__"].__get__(type(source)):
        for name, member in type.__dict__["__dict__"].__get__(base).items():
            if type(member) is types.MemberDescriptorType:
                try:
                    yield f".{name}", member.__get__(source)
                except AttributeError:
                    continue
    try:
        own = object.__getattribute__(source, "__dict__")
    except AttributeError:
        return
    if type(own) is dict:
        yield ".__dict__", own
        for name, value in own.items():
            yield _attribute(f"[{_key(name)}]"), value


def _variables(frame: types.FrameType, target: Any) -> Iterator[tuple[str, Any]]:
    """The local variables of a frame; those that closures share are reached by their cells."""
    is_cell = type(target) is types.CellType
    wanted = _contents(target) if is_cell else target
    for name, value in frame.f_locals.items():
        if value is wanted and wanted is not None:
            yield f" local `{name}`", target


def _contents(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return None


def _suspended(source: Any, target: Any) -> Iterator[tuple[str, Any]]:
    """The references of a generator or a coroutine: its frame, and those of the frame."""
    for prefix in _SUSPENDED:
        frame = getattr(source, f"{prefix}_frame", None)
        if frame is not None:
            yield f".{prefix}_frame", frame
            yield from _variables(frame, target)


def _place(obj: Any) -> tuple[str | None, str | None, int | None]:
    """The function, file and line of an object that has them; the name of a class or a module."""
    line: int | None = None
    if isinstance(obj, type):
        return str(type.__dict__["__qualname__"].__get__(obj)), None, None
    if isinstance(obj, types.ModuleType):
        return str(object.__getattribute__(obj, "__dict__").get("__name__")), None, None
    if type(obj) is types.MethodType:
        obj = obj.__func__
    if type(obj) is types.TracebackType:
        line, obj = obj.tb_lineno, obj.tb_frame
    elif isinstance(obj, types.FrameType):
        line = obj.f_lineno
    code = None
    if isinstance(obj, types.FrameType):
        code = obj.f_code
    elif type(obj) is types.FunctionType:
        code = obj.__code__
    else:
        for prefix in _SUSPENDED:
            if type(obj) in (types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType):
                code = getattr(obj, f"{prefix}_code", code)
    if not isinstance(code, types.CodeType):
        return None, None, None
    name = obj.__qualname__ if type(obj) is types.FunctionType else getattr(code, "co_qualname", code.co_name)
    return name, code.co_filename, line if line is not None else code.co_firstlineno


def _key(key: Any) -> str:
    """A key, if its ``repr`` is Python's own."""
    if type(key) in (str, int, float, bool, bytes, type(None)):
        text = repr(key)
        return text if len(text) <= 80 else f"{text[:77]}…"
    return f"<{type(key).__name__}>"
