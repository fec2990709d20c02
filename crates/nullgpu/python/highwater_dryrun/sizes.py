"""Functions whose results are as large as the values say: what they read of the device on their way, so that they can be told.

Each reads counts and allocates by them. A count is worked out from what is known of the function's arguments; where that is
nothing, by an assumption.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from highwater_dryrun import core


_PREFERENCE = 0.03
"""How far experts' mean scores lie apart where routing is uneven, of scores between 0 and 1: each is chosen a quarter more or less often, as
by a router that has learned little, and none never."""


class Assumptions:
    """What is taken for granted of values that are not known."""

    def __init__(self, wanted: "dict[str, str]") -> None:
        share = wanted.get("nonzero", "full")
        words = {"full": 1.0, "none": 0.0, "uniform": 0.5}
        self.share = words[share] if share in words else float(share)
        """How much of a mask is set."""
        routing = wanted.get("routing", "balanced")
        self.balanced = routing != "unknown"
        """Whether experts get their share."""
        self.uneven = routing == "uneven"
        """Whether those shares differ, as they do where chance decides."""
        self.overflows = wanted.get("overflow", "never") == "always"
        """Whether a scaler of gradients finds that they overflow, and leaves out each step."""
        self.fraction = float(wanted.get("fraction", "0.5"))
        """A fraction that nobody knows, where Python reads one."""
        self.places = {place: how for place, how in wanted.items() if ":" in place}
        """What is assumed at one line alone, as `FILE:LINE`."""

    def mask(self, shape: torch.Size, share: "float | None" = None) -> torch.Tensor:
        """A mask of which so much is set, evenly, and at least one element unless none is."""
        share = self.share if share is None else share
        if share == 1.0:
            return torch.ones(shape, dtype=torch.bool)
        places = torch.arange(shape.numel(), dtype=torch.float64)
        mask = ((places + 1) * share).floor() > (places * share).floor()
        if share > 0 and mask.numel():
            mask[-1] = True
        return mask.reshape(shape)

    def route(
        self, shape: torch.Size, experts: int, likely: "torch.Tensor | None" = None, router: int = 0
    ) -> torch.Tensor:
        """The experts that are chosen, the last dimension's for one token: those with the highest of the ``likely`` scores, and of equal
        ones each in turn. Where routing is uneven, each ``router`` chooses different ones."""
        if likely is None and not self.uneven:
            return torch.arange(shape.numel()).remainder(experts).reshape(shape)
        tokens = shape[:-1].numel()
        if self.uneven:
            # In each run the same, whatever the program draws.
            drawing = torch.Generator().manual_seed(hash((shape.numel(), router)) & 0xFFFF_FFFF)
            liked = torch.randn(experts, generator=drawing, device="cpu") * _PREFERENCE
            order = (torch.rand(tokens, experts, generator=drawing, device="cpu") + liked).argsort(dim=-1, descending=True)
        else:
            first = torch.arange(tokens, device="cpu")[:, None] * shape[-1]
            order = (torch.arange(experts, device="cpu") + first).remainder(experts)
        if likely is not None:
            scores = likely.reshape(tokens, experts).gather(-1, order)
            order = order.gather(-1, scores.argsort(dim=-1, descending=True, stable=True))
        return order[:, : shape[-1]].reshape(shape)

    def at(self, place: "str | None") -> "str | None":
        """What is assumed at a line of the program's alone."""
        return self.places.get((place or "").partition(" ")[0]) if self.places else None

    def words(self, share: "float | None" = None) -> str:
        """How that is said."""
        share = self.share if share is None else share
        return {1.0: "every element is set", 0.0: "no element is set"}.get(share, f"{share:.0%} of the elements are set")


class Asked:
    """A call, with what is known of tensors; collects what it is to be told."""

    def __init__(
        self,
        known: "Callable[[torch.Tensor], torch.Tensor | None]",
        assume: Assumptions,
        likely: Any,
    ) -> None:
        self.known = known
        self.assume = assume
        self.likely = likely
        """Of tensors that nobody knows, as :class:`highwater_dryrun.likely.Likely`."""
        self.answers: "list[bytes]" = []
        self.selected: "int | None" = None
        """How many elements are set in each mask that the function makes itself."""
        self.assumed: "str | None" = None

    def count(self, number: int) -> None:
        """Tells a number, to a read of 32 or 64 bits."""
        self.answers.append(core.number(number))

    def scalar(self, tensor: Any) -> None:
        """Tells the value of a tensor that has one, if it is one, and known or likely."""
        if isinstance(tensor, torch.Tensor) and tensor.is_cuda and tensor.numel() == 1:
            value = self.known(tensor)
            if value is None:
                value = self.likely.value(tensor)
                self.assumed = self.assumed if value is None else f"it is {value.item()}"
            if value is not None:
                self.answers.append(bytes(value.reshape(1).contiguous().view(torch.uint8).tolist()))

    def values(self, tensor: Any, otherwise: "int | None", assumed: str) -> None:
        """Tells all of a tensor's values; those of a tensor that nobody knows are `otherwise`."""
        if not isinstance(tensor, torch.Tensor) or not tensor.is_cuda:
            return
        value = self.known(tensor)
        if value is None and otherwise is not None:
            self.assumed = assumed
            value = torch.full(tensor.shape, otherwise, dtype=tensor.dtype)
        if value is not None:
            self.answers.append(bytes(value.contiguous().flatten().view(torch.uint8).tolist()))


def index(asked: Asked, _: torch.Tensor, indices: Any, *__: Any) -> None:
    """Elements at indices: the numbers among them are read. Masks are turned into places, see :mod:`highwater_dryrun.kernels`."""
    for part in indices if isinstance(indices, tuple) else (indices,):
        if isinstance(part, slice):
            for bound in (part.start, part.stop, part.step):
                asked.scalar(bound)
        elif isinstance(part, torch.Tensor) and part.is_cuda and part.dim() == 0 and part.dtype not in (torch.bool, torch.uint8):
            asked.scalar(part)


def unique(asked: Asked, tensor: torch.Tensor, *more: Any, **options: Any) -> None:
    """Different elements, or slices along a dimension."""
    _different(asked, tensor, more[3] if len(more) > 3 else options.get("dim"), torch.unique)


def unique_consecutive(asked: Asked, tensor: torch.Tensor, *more: Any, **options: Any) -> None:
    """Elements, or slices, that differ from the one before."""
    _different(asked, tensor, more[2] if len(more) > 2 else options.get("dim"), torch.unique_consecutive)


def isin(asked: Asked, elements: Any, among: Any = None, *, assume_unique: bool = False, **_: Any) -> None:
    """Whether elements are among others: of many, both are sorted and their different elements counted, the elements' own first."""
    if not isinstance(elements, torch.Tensor) or not isinstance(among, torch.Tensor) or assume_unique:
        return
    if among.numel() >= 10 * elements.numel() ** 0.145:
        for tensor in (elements, among):
            _different(asked, tensor, None, torch.unique)


def _different(asked: Asked, tensor: torch.Tensor, dim: "int | None", different: Callable[..., torch.Tensor]) -> None:
    value = asked.known(tensor)
    if value is not None:
        found = different(value, dim=dim)
        asked.count(found.numel() if dim is None else found.shape[dim])
        return
    if dim is not None:
        asked.assumed = "all slices differ"
        asked.count(tensor.shape[dim])
        return
    most = asked.likely.most(tensor)
    count, asked.assumed = (tensor.numel(), "all elements differ") if most is None else by_chance(tensor.numel(), most)
    asked.count(count)


def repeat_interleave(asked: Asked, tensor: torch.Tensor, repeats: Any = None, *_: Any, **__: Any) -> None:
    """Elements, each repeated: reads how many there are in all."""
    repeats = tensor if repeats is None else repeats
    if not isinstance(repeats, torch.Tensor):
        return
    value = asked.known(repeats)
    if value is None:
        value = asked.likely.value(repeats)
        asked.assumed = "everything is repeated once" if value is None else f"there are {int(value.sum())} in all"
    asked.count(repeats.numel() if value is None else int(value.sum()))


def bincount(asked: Asked, tensor: torch.Tensor, *_: Any, **__: Any) -> None:
    """How often each number is there: reads the smallest and the largest."""
    value = _known_or_likely(asked, tensor)
    if value is not None and value.numel():
        asked.count(int(value.min()))
        asked.count(int(value.max()))


def one_hot(asked: Asked, tensor: torch.Tensor, num_classes: int = -1) -> None:
    """A row for each number, as wide as the largest asks for."""
    value = _known_or_likely(asked, tensor) if num_classes == -1 else None
    if value is not None and value.numel():
        asked.count(int(value.max()))


def _known_or_likely(asked: Asked, tensor: torch.Tensor) -> "torch.Tensor | None":
    value = asked.known(tensor)
    if value is None:
        value = asked.likely.value(tensor)
        if value is not None and value.numel():
            asked.assumed = f"the largest is {int(value.max())}"
    return value


def coalesce(asked: Asked, tensor: torch.Tensor) -> None:
    """A sparse tensor's elements, those of one place added up: reads how many places there are."""
    if tensor.layout != torch.sparse_coo or tensor.is_coalesced() or tensor._nnz() < 2:
        return
    count, asked.assumed = different_places(tensor, asked.known(tensor._indices()))
    asked.count(count)


def different_places(tensor: torch.Tensor, known: "torch.Tensor | None") -> "tuple[int, str | None]":
    """The number of different places of a sparse tensor's elements, and the assumption that gave it, if its places are not known."""
    if known is not None:
        return int(torch.unique(known, dim=1).shape[1]), None
    return by_chance(tensor._nnz(), tensor.shape[: tensor.sparse_dim()].numel())


def by_chance(elements: int, possible: int) -> "tuple[int, str]":
    """How many different ones there are of so many elements, each of which has any of the ``possible`` values; and how that is said."""
    if possible < 2:
        expected = possible
    else:
        expected = round(-possible * math.expm1(elements * math.log1p(-1 / possible)))
    count = max(min(elements, 1), min(elements, expected))
    if count == elements:
        return count, "all elements differ"
    if count == possible:
        return count, f"each of {possible} possible values is there"
    return count, f"{count} of {elements} elements differ, each being any of {possible} possible ones"


def ctc_loss(
    asked: Asked, log_probs: torch.Tensor, targets: torch.Tensor, input_lengths: Any, target_lengths: Any, *_: Any, **__: Any
) -> None:
    """A loss over sequences of several lengths, which the host wants to know."""
    longest = targets.shape[-1] if targets.dim() == 2 else None
    if longest is None and isinstance(target_lengths, torch.Tensor) and target_lengths.numel():
        longest = targets.numel() // target_lengths.numel()
    asked.values(input_lengths, log_probs.shape[0], "every sequence is as long as the longest")
    asked.values(target_lengths, longest, "every target is as long as the longest")


def left_aligned(asked: Asked, _: torch.Tensor, mask: torch.Tensor) -> None:
    """Whether a mask has no gap before its padding: reads that."""
    if not mask.is_cuda:
        return
    lengths = _lengths(asked, mask)
    expected = torch.arange(mask.shape[1]) < lengths[:, None]
    value = asked.known(mask)
    asked.answers.append(bytes([value is None or torch.equal(expected, value)]))


def nested_from_mask(asked: Asked, tensor: torch.Tensor, mask: torch.Tensor, mask_check: bool = True) -> None:
    """The rows of a padded tensor without their padding: reads how long each is, after the check."""
    if not mask.is_cuda:
        return
    if mask_check:
        left_aligned(asked, tensor, mask)
    lengths = _lengths(asked, mask)
    sizes = torch.stack([lengths, torch.full_like(lengths, tensor.shape[2])], 1)
    asked.answers.append(bytes(sizes.flatten().view(torch.uint8).tolist()))


def _lengths(asked: Asked, mask: torch.Tensor) -> torch.Tensor:
    value = asked.known(mask)
    if value is None:
        asked.assumed = "no row is padded"
        return torch.full((mask.shape[0],), mask.shape[1])
    return value.sum(1)


def finite(asked: Asked, *_: Any, **__: Any) -> None:
    """Eigenvalues: reads whether all elements are finite."""
    asked.answers.append(bytes([True]))


def normal(asked: Asked, _: Any = None, std: Any = None, *__: Any, **___: Any) -> None:
    """Numbers around means: reads whether every standard deviation is one, before and after it has made room."""
    if isinstance(std, torch.Tensor) and std.is_cuda and std.numel():
        value = asked.known(std)
        asked.answers += [bytes([value is None or not bool((value < 0).any())])] * 2


def combinations(asked: Asked, tensor: torch.Tensor, r: int = 2, with_replacement: bool = False) -> None:
    """So many of the elements at a time: selects each one's from a grid by a mask."""
    choices = tensor.numel() + (r - 1 if with_replacement else 0)
    asked.selected = math.comb(choices, r)


def cov(asked: Asked, _: torch.Tensor, *, fweights: Any = None, aweights: Any = None, **__: Any) -> None:
    """Covariances of weighted observations: reads whether any of the weights is negative, of each kind, and whether they have a sum."""
    weights = [given for given in (fweights, aweights) if isinstance(given, torch.Tensor)]
    for given in weights:
        value = asked.known(given)
        asked.answers.append(bytes([value is None or not bool((value < 0).any())]))
    asked.answers += [bytes([True])] * bool(weights)


def segment_reduce(asked: Asked, data: torch.Tensor, *_: Any, lengths: Any = None, **options: Any) -> None:
    """A reduction of segments: reads the length of the shortest, and whether together they are as long as the data."""
    if isinstance(lengths, torch.Tensor) and lengths.numel() and not options.get("unsafe"):
        value = asked.known(lengths)
        asked.count(0 if value is None else int(value.min()))
        length = data.shape[options.get("axis", 0)]
        asked.answers.append(bytes([value is None or bool((value.sum(-1) == length).all())]))


RULES: "dict[str, Callable[..., None]]" = {
    "__getitem__": index,
    "__setitem__": index,
    "_nested_tensor_from_mask": nested_from_mask,
    "_nested_tensor_from_mask_left_aligned": left_aligned,
    "bincount": bincount,
    "coalesce": coalesce,
    "combinations": combinations,
    "cov": cov,
    "ctc_loss": ctc_loss,
    "index_put": index,
    "index_put_": index,
    "isin": isin,
    "linalg_eig": finite,
    "linalg_eigvals": finite,
    "normal": normal,
    "one_hot": one_hot,
    "repeat_interleave": repeat_interleave,
    "segment_reduce": segment_reduce,
    "unique": unique,
    "unique_consecutive": unique_consecutive,
}
"""By the name of the function."""
