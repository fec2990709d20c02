"""What the program read of the null GPU that nobody knows, and what was assumed instead, by place."""

from __future__ import annotations

import os
import sys
import weakref
from types import FrameType
from typing import Any

_HERE = os.path.dirname(os.path.abspath(__file__))


class Places:
    """The program's own lines."""

    def __init__(self, torch: Any) -> None:
        self._ours = (_HERE, os.path.dirname(os.path.abspath(torch.__file__)), "<")

    def innermost(self, frame: "FrameType | None") -> "str | None":
        """The innermost line that is not PyTorch's; ``None`` in a thread that the program did not start."""
        while frame is not None:
            path = frame.f_code.co_filename
            if not path.startswith(self._ours):
                return f"{_short(path)}:{frame.f_lineno} {frame.f_code.co_name}"
            frame = frame.f_back
        return None

    def of_error(self, error: BaseException) -> "str | None":
        """The innermost such line of those that an error has left."""
        place, trace = None, error.__traceback__
        while trace is not None:
            code = trace.tb_frame.f_code
            if not code.co_filename.startswith(self._ours):
                place = f"{_short(code.co_filename)}:{trace.tb_lineno} {code.co_name}"
            trace = trace.tb_next
        return place


class Modules:
    """The program's modules, numbered as they are first met, and the steps that its optimizers have done."""

    def __init__(self, torch: Any) -> None:
        self._module = torch.nn.Module
        self._numbers: "weakref.WeakKeyDictionary[Any, int]" = weakref.WeakKeyDictionary()
        self.steps = 0

    def now(self) -> int:
        """A number for the innermost module that runs, in this step: the same where a checkpoint repeats its forward pass."""
        frame: "FrameType | None" = sys._getframe(1)
        while frame is not None:
            code = frame.f_code
            # A function without arguments has no first one, and a module need not be called `self`.
            first = frame.f_locals.get(code.co_varnames[0]) if code.co_argcount else None
            if isinstance(first, self._module):
                return self._numbers.setdefault(first, len(self._numbers) + 1) + (self.steps << 12)
            frame = frame.f_back
        return self.steps << 12


class Reads:
    """Counts of reads by operator and place."""

    def __init__(self, torch: Any) -> None:
        self._places = Places(torch)
        self._counts: "dict[tuple[str, str, bool, str | None], int]" = {}
        self._last: "tuple[str, str, bool, str | None] | None" = None
        self.could_differ = False
        """Whether the size of something was assumed for which another is as good."""

    def note(self, what: str, *, may_matter: bool, assumed: "str | None" = None, count: int = 1, differs: bool = False) -> None:
        """Notes a read by the operator ``what``; ``differs`` says that the size of something was assumed."""
        self.could_differ |= differs
        place = self._places.innermost(sys._getframe(1))
        if place is None and assumed is not None:
            # The backward pass reads the mask of the forward pass again, which has been noted at its line.
            return
        key = (what, place or "(a thread of PyTorch's)", may_matter, assumed)
        self._counts[key] = self._counts.get(key, 0) + count
        # A loss that is logged explains nothing.
        if may_matter or self._last is None or not self._last[2]:
            self._last = key

    def last(self) -> "dict[str, Any] | None":
        """The last one, of those that may matter if there are any."""
        return None if self._last is None else self._row(self._last)

    def listed(self, *, assumed: bool) -> "list[dict[str, Any]]":
        """Those of which something was assumed, or the others; the most frequent first."""
        rows = [self._row(key) for key in self._counts if (key[3] is not None) == assumed]
        return sorted(rows, key=lambda row: -row["count"])

    def _row(self, key: "tuple[str, str, bool, str | None]") -> "dict[str, Any]":
        what, place, may_matter, how = key
        return {"what": what, "place": place, "count": self._counts[key], "may_matter": may_matter, "assumed": how}


def _short(path: str) -> str:
    """A path from its package on; the name alone of a script."""
    _, found, inside = path.rpartition("site-packages/")
    return inside if found else os.path.basename(path)
