"""Functions whose results are as large as the values say: what they read of the device on their way, so that they can be told.

Each reads counts and allocates by them. A count is worked out from what is known of the function's arguments; where that is
nothing, by an assumption.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import torch


class Assumptions:
    """What is taken for granted of values that are not known."""

    def __init__(self, wanted: "dict[str, str]") -> None:
        share = wanted.get("nonzero", "full")
        words = {"full": 1.0, "none": 0.0, "uniform": 0.5}
        self.share = words[share] if share in words else float(share)
        """How much of a mask is set."""
        self.balanced = wanted.get("routing", "balanced") == "balanced"
        """Whether experts get their even share."""

    def mask(self, shape: torch.Size) -> torch.Tensor:
        """A mask of which so much is set, evenly."""
        if self.share == 1.0:
            return torch.ones(shape, dtype=torch.bool)
        places = torch.arange(shape.numel(), dtype=torch.float64)
        return (((places + 1) * self.share).floor() > (places * self.share).floor()).reshape(shape)

    def set_in(self, elements: int) -> int:
        """How many of so many elements are set."""
        return int(elements * self.share)

    def words(self) -> str:
        """How that is said."""
        return {1.0: "every element is set", 0.0: "no element is set"}.get(
            self.share, f"{self.share:.0%} of the elements are set"
        )


class Asked:
    """A call, with what is known of tensors; collects what it is to be told."""

    def __init__(self, known: "Callable[[torch.Tensor], torch.Tensor | None]", assume: Assumptions) -> None:
        self.known = known
        self.assume = assume
        self.answers: "list[bytes]" = []
        self.assumed: "str | None" = None

    def count(self, number: int) -> None:
        """Tells a number, to a read of 32 or 64 bits."""
        self.answers.append(struct.pack("=q", number))

    def scalar(self, tensor: Any) -> None:
        """Tells the value of a tensor that has one, if it is one, and known."""
        if isinstance(tensor, torch.Tensor) and tensor.is_cuda and tensor.numel() == 1:
            value = self.known(tensor)
            if value is not None:
                self.answers.append(bytes(value.reshape(1).contiguous().view(torch.uint8).tolist()))

    def set_in(self, mask: torch.Tensor, elements: "int | None" = None) -> None:
        """Tells how much of a mask is set; each of its elements stands for as many as ``elements`` says there are."""
        value = self.known(mask)
        elements = mask.numel() if elements is None else elements
        if value is None:
            self.assumed = self.assume.words()
            self.count(self.assume.set_in(elements))
        elif mask.numel():
            self.count(int(value.count_nonzero()) * (elements // mask.numel()))


def nonzero(asked: Asked, mask: torch.Tensor, *others: Any, **_: Any) -> None:
    """The places of what is not zero. `where` does the same if it is given a condition only."""
    if not others:
        asked.set_in(mask)


def masked_select(asked: Asked, tensor: torch.Tensor, mask: torch.Tensor, **_: Any) -> None:
    """The elements at a mask."""
    asked.set_in(mask, torch.broadcast_shapes(tensor.shape, mask.shape).numel())


def index(asked: Asked, _: torch.Tensor, indices: Any, *__: Any) -> None:
    """Elements at indices: first the numbers among them are read, then of each mask how much is set."""
    parts = indices if isinstance(indices, tuple) else (indices,)
    masks = []
    for part in parts:
        if isinstance(part, slice):
            for bound in (part.start, part.stop, part.step):
                asked.scalar(bound)
        elif isinstance(part, torch.Tensor) and part.is_cuda:
            if part.dtype in (torch.bool, torch.uint8):
                masks.append(part)
            elif part.dim() == 0:
                asked.scalar(part)
    for mask in masks:
        asked.set_in(mask)


def unique(asked: Asked, tensor: torch.Tensor, *_: Any, **__: Any) -> None:
    """Different elements."""
    _different(asked, tensor, torch.unique)


def unique_consecutive(asked: Asked, tensor: torch.Tensor, *_: Any, **__: Any) -> None:
    """Elements that differ from the one before."""
    _different(asked, tensor, torch.unique_consecutive)


def _different(asked: Asked, tensor: torch.Tensor, count: Callable[[torch.Tensor], torch.Tensor]) -> None:
    value = asked.known(tensor)
    if value is None:
        asked.assumed = "all elements differ"
    asked.count(tensor.numel() if value is None else count(value).numel())


def repeat_interleave(asked: Asked, tensor: torch.Tensor, repeats: Any = None, *_: Any, **__: Any) -> None:
    """Elements, each repeated: reads how many there are in all."""
    repeats = tensor if repeats is None else repeats
    if not isinstance(repeats, torch.Tensor):
        return
    value = asked.known(repeats)
    if value is None:
        asked.assumed = "everything is repeated once"
    asked.count(repeats.numel() if value is None else int(value.sum()))


def bincount(asked: Asked, tensor: torch.Tensor, *_: Any, **__: Any) -> None:
    """How often each number is there: reads the smallest and the largest."""
    value = asked.known(tensor)
    if value is not None and value.numel():
        asked.count(int(value.min()))
        asked.count(int(value.max()))


RULES: "dict[str, Callable[..., None]]" = {
    "__getitem__": index,
    "__setitem__": index,
    "argwhere": nonzero,
    "bincount": bincount,
    "index_put": index,
    "index_put_": index,
    "masked_select": masked_select,
    "nonzero": nonzero,
    "repeat_interleave": repeat_interleave,
    "unique": unique,
    "unique_consecutive": unique_consecutive,
    "where": nonzero,
}
"""By the name of the function."""
