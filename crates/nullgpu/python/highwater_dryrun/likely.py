"""Likely values of small tensors that only a GPU could compute, for the places where a program decides by one.

A number that nobody knows is taken to be an ordinary one: a fraction is a half, or less by a little with each that is read; of two
numbers compared it is on the side of the other's sign; a whole number is none of those that it is compared with. What follows from such a
number is worked out as for known values. It is used where Python reads a single value, so that a loop goes on until its limit, a
search does not end at its first step and a division is not one by 0; where it was used, the answer says so. How much of a mask is set
is another matter: that is assumed (:class:`highwater_dryrun.sizes.Assumptions`).
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch

from highwater_dryrun.arguments import UNKNOWN, flatten, on_cpu
from highwater_dryrun.mirrors import Mirrors, Numbers, may_be_kept
from highwater_dryrun.reads import Places, Reads
from highwater_dryrun.sizes import Assumptions

_ELEMENTS_MAX = 1 << 14
"""Larger tensors of fractions are not followed."""
_WHOLE_MAX = 1 << 20
"""Nor larger ones of whole numbers or truth values, which choose among nodes and edges of graphs."""
_RESULTS_MAX = 8
"""Nor what writes more tensors at once: steps of optimizers."""
_FALL = 0.999
"""Each fraction that Python reads is so much of the one before: losses fall."""
_COMPARING = frozenset("eq ne lt le gt ge less less_equal greater greater_equal not_equal isin".split())
_TOSSING = frozenset("bernoulli bernoulli_".split())
DRAWING = frozenset("rand rand_like uniform_".split()) | _TOSSING
"""These draw numbers between 0 and 1, or set elements by them."""
_MANY = 1 << 10
"""Of fewer numbers chance would have too many or too few below a limit: they lie evenly."""
_EVENLY = 0.6180339887498949
"""Multiples of the golden ratio lie evenly between 0 and 1, those of each stretch too."""
_ORDERING = frozenset("lt le gt ge less less_equal greater greater_equal".split())
_COUNTING = frozenset("any sum count_nonzero".split())
_CHECKING = frozenset(["all"])
_ASSERTION = "is_all_true"
"""PyTorch's own check of arguments, as of parameters of distributions: what only a GPU could compute is sound."""
_SORTING = frozenset("sort argsort".split())
_CHOOSING = frozenset("argmax argmin max min topk sort argsort multinomial".split())
_REMAINDERS = frozenset("mod remainder fmod".split())
_QUOTIENTS = frozenset("floordiv floor_divide div divide".split())
_RANDOM = frozenset("randint randint_like randperm random".split())
_PICKING = frozenset(
    "getitem index index_select gather take take_along_dim masked_select sort unique unique_consecutive clone contiguous flatten reshape "
    "ravel repeat tile repeat_interleave flip roll to long int".split()
)
_JOINING = frozenset("cat concat concatenate stack hstack vstack".split())
_WHOLE = (torch.int64, torch.int32)
_OF_ONE = frozenset("item __bool__ __int__ __float__ __index__ is_nonzero".split())


class Likely:
    """What is likely in tensors of which nothing is known."""

    def __init__(
        self, known: "Callable[[torch.Tensor], torch.Tensor | None]", mirrors: Mirrors, assume: Assumptions, reads: Reads
    ) -> None:
        self._known = known
        self._mirrors = mirrors
        self._assume = assume
        self._reads = reads
        self._places = Places(torch)
        self._values = Mirrors()
        self._masks = Mirrors()
        """Of masks of which a part is known: as much of the rest as is assumed."""
        self._most = Numbers()
        """Of whole numbers, each of which has one of so many values: how many there are."""
        self._drawn = Mirrors()
        """Of numbers between 0 and 1 that a program draws: as many of them below any limit as chance would have there."""
        self._equal = Mirrors()
        """The number that a tensor was compared with first."""
        self._fractions = 0
        self._draws = 0

    def most(self, tensor: torch.Tensor) -> "int | None":
        """How many different values the tensor can have."""
        return self._most.get(tensor) if tensor.dtype in _WHOLE else None

    def value(self, tensor: torch.Tensor) -> "torch.Tensor | None":
        """What is likely in a tensor; ``None`` if nothing is."""
        return self._values.get(tensor)

    def holds(self, tensor: torch.Tensor) -> bool:
        """Whether something may be likely in the tensor."""
        return self._values.holds(tensor)

    def choose(self, tensor: torch.Tensor, value: torch.Tensor) -> None:
        """Notes what is likely in a tensor."""
        if may_be_kept(tensor) and value.shape == tensor.shape:
            self._values.put(tensor, value)

    def _ordinary(self, tensor: torch.Tensor) -> torch.Tensor:
        """An ordinary number in each element. What was chosen of many is neither of the first ones nor the last, which have meanings: a word
        ends no text."""
        most = self.most(tensor)
        is_fraction = tensor.dtype.is_floating_point or tensor.dtype.is_complex
        number = self._assume.fraction if is_fraction else 1 if most is None else int(most * _EVENLY)
        return torch.full(tensor.shape, number, dtype=tensor.dtype)

    def mask(self, mask: torch.Tensor) -> torch.Tensor:
        """What is assumed of a mask that is not known."""
        share = _share(self._here())
        if share is not None:
            return self._assume.mask(mask.shape, share)
        for values in (self._masks, self._values):
            value = values.get(mask)
            if value is not None and (values is self._masks or bool(value.any())):
                return value
        return self._assume.mask(mask.shape)

    def words(self, value: torch.Tensor) -> str:
        """How it is said what is assumed of a mask."""
        return self._assume.words(int(value.count_nonzero()) / value.numel() if value.numel() else 1.0)

    def inputs(self, name: str, tensors: Any, target: Any) -> "dict[int, torch.Tensor] | None":
        """What is likely in the arguments, by their identity; ``None`` if nothing is, or they are too large."""
        if name in UNKNOWN or not all(map(_is_plain, tensors)):
            return None
        found: "dict[int, torch.Tensor]" = {}
        is_likely = False
        for tensor in tensors:
            value = self._known(tensor)
            if value is None and tensor.is_cuda:
                value = self._values.get(tensor)
            if value is not None:
                is_likely = True
            elif tensor.dtype == torch.bool or _is_large(tensor) or not may_be_kept(tensor):
                return None
            else:
                value = self._ordinary(tensor)
            found[id(tensor)] = value.clone() if tensor is target else value
        return found if is_likely else None

    def follow_numbers(self, name: str, args: Any, kwargs: Any, results: Any) -> None:
        """Notes of how many values each number has one, in whatever the function has written, and be it large."""
        base = name.strip("_")
        if base in _CHOOSING:
            self._note_most(base, args, kwargs, results)
        elif base in _RANDOM and len(results) == 1:
            self._note_random(base, args, kwargs, results[0])
        elif base in _REMAINDERS or base in _QUOTIENTS:
            self._note_part(base, args, results)
        if base in _PICKING or base in _JOINING:
            self._pass_on(base, args, kwargs, results)

    def follow(
        self, name: str, func: Any, args: Any, kwargs: Any, tensors: Any, target: Any, inputs: Any, before: Any, results: Any
    ) -> None:
        """Works out what is likely in what the function has written, ``inputs`` being what was likely before it wrote to a target."""
        if not all(map(_is_plain, [*tensors, *results])):
            return
        base = name.strip("_")
        if name in DRAWING:
            self._note_drawn(name, args, kwargs, results)
        self._note_mask(base, tensors, results)
        counts = self._counts(base, args, kwargs, inputs, results)
        if counts is not None and may_be_kept(results[0]):
            self._values.put(results[0], counts, before=before)
            return
        taken = self._taken(base, args, kwargs)
        if taken is not None:
            self.choose(results[0], taken)
            return
        if base in _SORTING and self._sorted(args, kwargs, results):
            return
        if len(results) > _RESULTS_MAX or any(map(_is_large, results)):
            return
        values = self._worked_out(base, name, func, args, kwargs, tensors, target, inputs, results)
        if values is None or len(values) != len(results):
            return
        for result, value in zip(results, values):
            fits = _is_plain(value) and value.shape == result.shape and may_be_kept(result)
            if fits and result.is_cuda and (target is not None or not self._values.holds(result)):
                if target is not None:
                    # The rest of what was known is no less likely.
                    self._values.begin_with(result, self._mirrors, before)
                self._values.put(result, value, before=before)

    def _worked_out(
        self, base: str, name: str, func: Any, args: Any, kwargs: Any, tensors: Any, target: Any, inputs: Any, results: Any
    ) -> "list[torch.Tensor] | None":
        if base in _COUNTING and len(tensors) == 1 and tensors[0].dtype == torch.bool and tensors[0].numel() > 1:
            # As many as an index by the mask would find.
            value = self._values.get(tensors[0])
            inputs = {id(tensors[0]): self.mask(tensors[0]) if value is None else value}
        elif base == _ASSERTION:
            return [torch.full(results[0].shape, True)]
        elif base in _CHECKING and len(tensors) == 1 and tensors[0].numel() == 1:
            # Whether a single number is sound is asked like this: it is, if nothing speaks against it.
            value = self._values.get(tensors[0])
            return [torch.full(results[0].shape, value is None or bool(value.all()))]
        elif base in _COMPARING:
            inputs = self._compared(base, args, kwargs, tensors)
            if base == "eq" and inputs is False:
                self._note_equal(args, results)
            if isinstance(inputs, bool):
                shape = torch.broadcast_shapes(*(tensor.shape for tensor in tensors)) if base != "isin" else args[0].shape
                return [torch.full(shape, inputs)]
        elif target is None:
            inputs = self.inputs(name, tensors, target)
        if inputs is None:
            return None
        given = on_cpu(name, func, args, kwargs, inputs)
        if given is None:
            return self._gathered(base, tensors, inputs)
        if base in _ORDERING and results[0].dtype == torch.bool and self._stands(tensors, inputs):
            self._masks.put(results[0], given[0])
        if target is not None:
            return [inputs[id(target)]]
        values: "list[torch.Tensor]" = []
        flatten(given, values)
        return values

    def _compared(self, base: str, args: Any, kwargs: Any, tensors: Any) -> "dict[int, torch.Tensor] | bool | None":
        """What is compared, or the answer."""
        inputs: "dict[int, torch.Tensor]" = {}
        unknown = []
        for tensor in tensors:
            value = self._known(tensor)
            if value is None and tensor.is_cuda:
                value = self._values.get(tensor)
                value = self._drawn.get(tensor) if value is None else value
            if value is None:
                unknown.append(tensor)
            else:
                inputs[id(tensor)] = value
        if not unknown:
            return inputs
        if any(tensor.dtype == torch.bool for tensor in unknown):
            return None
        if base in ("eq", "ne", "not_equal", "isin") and not unknown[0].dtype.is_floating_point:
            return base in ("ne", "not_equal")
        if any(tensor.numel() != 1 for tensor in tensors):
            return None
        other = [argument for argument in (*args, *kwargs.values()) if isinstance(argument, (int, float))]
        other += [float(value) for value in inputs.values()]
        below = bool(other) and other[0] < 0
        for tensor in unknown:
            ordinary = self._ordinary(tensor)
            inputs[id(tensor)] = -ordinary if below and tensor.dtype.is_signed else ordinary
        return inputs

    def _taken(self, base: str, args: Any, kwargs: Any) -> "torch.Tensor | None":
        """What is taken out of known numbers at places that nobody knows: from the first to the last, evenly."""
        if base not in ("getitem", "index_select") or len(args) < 2:
            return None
        source, index = args[0], args[1] if base == "getitem" else kwargs.get("index", args[-1])
        is_list = isinstance(index, torch.Tensor) and index.dim() == 1 and index.dtype in (torch.int64, torch.int32)
        if not is_list or not isinstance(source, torch.Tensor) or source.dim() != 1 or not source.is_cuda:
            return None
        value = self._known(source)
        likely = self._values.get(index)
        # Places that are all the same are as good as unknown: they are ordinary numbers.
        if likely is not None and likely.numel() > 1 and bool((likely == likely[0]).all()):
            likely = None
        if value is None or not value.numel() or self._known(index) is not None or likely is not None:
            return None
        places = torch.linspace(0, value.numel() - 1, index.numel(), dtype=torch.float64, device="cpu").round().to(torch.int64)
        return value[places]

    def _counts(
        self, base: str, args: Any, kwargs: Any, inputs: "dict[int, torch.Tensor] | None", results: Any
    ) -> "torch.Tensor | None":
        """How often each number is there among numbers that nobody knows, such as the neighbours of each node of a graph: as often as the
        others."""
        if base == "bincount":
            weights = args[1] if len(args) > 1 else kwargs.get("weights")
            if not args or isinstance(weights, torch.Tensor):
                return None
            numbers, total = args[0], float(args[0].numel())
        elif base in ("scatter_add", "index_add") and len(args) == 4 and isinstance(args[3], torch.Tensor):
            numbers, added = args[2], args[3]
            sums = self._known(args[0]) if inputs is None else inputs.get(id(args[0]))
            each = self._known(added)
            is_even = each is not None and each.numel() > 0 and bool((each == each.flatten()[0]).all())
            if sums is None or bool(sums.any()) or not is_even or results[0].dim() != 1:
                return None
            total = float(each.flatten()[0]) * added.numel()
        else:
            return None
        likely = self._values.get(numbers)
        is_known = self._known(numbers) is not None or (likely is not None and bool((likely != likely.flatten()[:1]).any()))
        if is_known or not numbers.is_cuda or not results[0].numel():
            return None
        mean = total / results[0].numel()
        number = mean if results[0].dtype.is_floating_point else max(1, round(mean))
        return torch.full(results[0].shape, number, dtype=results[0].dtype)

    def _sorted(self, args: Any, kwargs: Any, results: Any) -> bool:
        """Notes an order of numbers that nobody knows: any is as likely. Each number has one place even so, and whatever is chosen by
        rank is as large as that says. Whether there was one to note."""
        source, order = args[0] if args else kwargs.get("input"), results[-1]
        dim = kwargs.get("dim", next((argument for argument in args[1:] if type(argument) is int), -1))
        if not isinstance(source, torch.Tensor) or not source.is_cuda or order.dtype != torch.int64 or _is_large(order):
            return False
        if self._known(source) is not None or self._values.get(source) is not None or not source.dim() or not source.numel():
            return False
        # Each time the same, whatever the program draws.
        drawing = torch.Generator().manual_seed(order.numel())
        places = torch.rand(source.movedim(dim, -1).shape, generator=drawing, device="cpu").argsort(dim=-1)
        self.choose(order, places.movedim(-1, dim))
        return True

    def _stands(self, tensors: Any, inputs: "dict[int, torch.Tensor]") -> bool:
        """Whether an index by the mask of a comparison is to find what a look at its numbers would, and be it nothing: of numbers that were
        drawn, and of one tensor of words, which are all ordinary ones."""
        if any(tensor.is_cuda and self._drawn.get(tensor) is not None for tensor in tensors):
            return True
        value = inputs[id(tensors[0])]
        is_of_words = len(tensors) == 1 and not value.dtype.is_floating_point and self._known(tensors[0]) is None
        return is_of_words and value.numel() > 0 and bool((value == value.flatten()[0]).all())

    @staticmethod
    def _gathered(base: str, tensors: Any, inputs: "dict[int, torch.Tensor]") -> "list[torch.Tensor] | None":
        """What is taken from many of the same, wherever it is taken from."""
        if base not in ("gather", "take_along_dim", "index_select", "take") or len(tensors) != 2:
            return None
        source, index = inputs[id(tensors[0])], tensors[1]
        if base == "index_select" or not source.numel() or not bool((source == source.flatten()[0]).all()):
            return None
        return [torch.full(index.shape, source.flatten()[0].item(), dtype=source.dtype)]

    def _note_drawn(self, name: str, args: Any, kwargs: Any, results: Any) -> None:
        """Notes that numbers between 0 and 1 were drawn, or that chance has set elements by them."""
        has_limits = name == "uniform_" and (len(args) > 1 or "from" in kwargs or "to" in kwargs)
        if len(results) != 1 or has_limits or results[0].numel() > _WHOLE_MAX or not may_be_kept(results[0], is_whole=True):
            return
        shape = results[0].shape
        if shape.numel() < _MANY:
            places = torch.arange(shape.numel(), dtype=torch.float64, device="cpu") + 0.5
            drawn = (places * _EVENLY).frac().reshape(shape)
        else:
            # As many of them below a limit as by chance: each time another number, as on a GPU, and in each run the same.
            drawing = torch.Generator().manual_seed(self._draws)
            drawn = torch.rand(shape, generator=drawing, device="cpu")
            self._draws += 1
        if name not in _TOSSING:
            self._drawn.put(results[0], drawn)
            return
        given = args[0] if name == "bernoulli" and len(args) == 1 and not kwargs else args[1] if len(args) > 1 else kwargs.get("p", 0.5)
        limit = self._known(given) if isinstance(given, torch.Tensor) else given
        if limit is not None:
            self._values.put(results[0], (drawn < limit).to(results[0].dtype))

    def _note_most(self, base: str, args: Any, kwargs: Any, results: Any) -> None:
        """Notes of how many a choice was one."""
        source = args[0] if args and isinstance(args[0], torch.Tensor) else None
        chosen = [result for result in results if result.dtype == torch.int64]
        if source is None or len(chosen) != 1 or not source.dim() or (source is chosen[0]):
            return
        of_all = base in ("argmax", "argmin")
        dim = kwargs.get("dim", args[1] if len(args) > 1 and (of_all or base in ("max", "min")) else None if of_all else -1)
        if base in ("max", "min") and len(args) == 1 and not kwargs:
            # The number itself, not its place.
            most = self.most(source)
        elif of_all and dim is None:
            most = source.numel()
        elif isinstance(dim, int):
            most = source.shape[dim]
        else:
            return
        if most is not None:
            self._most.put(chosen[0], most)

    def _note_random(self, base: str, args: Any, kwargs: Any, result: torch.Tensor) -> None:
        """Notes of how many values a random number has one."""
        bounds = [argument for argument in args if type(argument) is int]
        high = kwargs.get("high", kwargs.get("n", kwargs.get("to", bounds[-1] if bounds else None)))
        low = kwargs.get("low", kwargs.get("from", bounds[0] if len(bounds) > 1 else 0))
        if type(high) is int and type(low) is int and high > low and result.dtype in _WHOLE:
            self._most.put(result, high - low)

    def _pass_on(self, base: str, args: Any, kwargs: Any, results: Any) -> None:
        """What is taken from such numbers, or put together of them, is one of as many."""
        sources: "list[torch.Tensor]" = []
        flatten((args[0] if args else kwargs.get("tensors", kwargs.get("input")),), sources)
        if not sources or (base in _PICKING and len(sources) > 1):
            return
        most = [self.most(source) for source in sources]
        if results and results[0].dtype in _WHOLE and None not in most:
            self._most.put(results[0], max(number for number in most if number is not None))

    def _note_part(self, base: str, args: Any, results: Any) -> None:
        """Notes of how many a part of a choice is one: a choice among the words of all beams is one of a beam, and one of a word."""
        if len(args) < 2 or not isinstance(args[0], torch.Tensor) or type(args[1]) is not int or args[1] < 1:
            return
        most, result = self.most(args[0]), results[0]
        if most is not None and result.dtype in _WHOLE:
            self._most.put(result, min(most, args[1]) if base in _REMAINDERS else -(-most // args[1]))

    def _note_equal(self, args: Any, results: Any) -> None:
        """Of several numbers with which a tensor is compared, each element equals one at most: the first."""
        tensor, number = args[0], args[1] if len(args) > 1 else None
        if not isinstance(tensor, torch.Tensor) or type(number) is not int or not may_be_kept(tensor):
            return
        first = self._equal.get(tensor)
        if first is None:
            self._equal.put(tensor, torch.full(tensor.shape, number, dtype=tensor.dtype))
        elif first.numel() and first.flatten()[0] != number:
            self._masks.put(results[0], torch.zeros(results[0].shape, dtype=torch.bool))

    def _note_mask(self, base: str, tensors: Any, results: Any) -> None:
        """Notes what is assumed of a mask that a known one limits."""
        if base not in ("and", "iand", "rand", "logical_and", "bitwise_and", "mul") or len(results) != 1 or len(tensors) != 2:
            return
        result = results[0]
        if result.dtype != torch.bool or not may_be_kept(result):
            return
        parts = []
        for tensor in tensors:
            value = self._known(tensor) if tensor.dtype == torch.bool else None
            if value is None and tensor.is_cuda and tensor.dtype == torch.bool:
                value = self._masks.get(tensor)
            if value is not None:
                parts.append(value)
        if not parts:
            return
        limit = parts[0].expand(result.shape) if len(parts) == 1 else (parts[0] & parts[1]).expand(result.shape)
        # So much of what the known part leaves.
        mask = torch.zeros(result.shape, dtype=torch.bool)
        mask[limit] = self._assume.mask(torch.Size([int(limit.count_nonzero())]))
        self._masks.put(result, mask)

    def read(self, name: str, func: Any, args: Any, kwargs: Any, tensors: Any) -> "tuple[Any] | None":
        """What Python gets that reads one value; ``None`` if nothing is likely."""
        if name not in _OF_ONE or len(tensors) != 1 or tensors[0].numel() != 1 or not tensors[0].is_cuda:
            return None
        tensor = tensors[0]
        how = self._here()
        value = None if how is None else _number(how, tensor)
        if value is None:
            value = self._values.get(tensor)
        if value is None:
            if not tensor.dtype.is_floating_point or name == "__bool__":
                return None
            value = torch.full(tensor.shape, self._assume.fraction * _FALL**self._fractions, dtype=torch.float64)
            self._fractions += 1
        told = on_cpu(name, func, args, kwargs, {id(tensor): value})
        if told is not None:
            decides = not isinstance(told[0], float)
            self._reads.note(name.strip("_"), may_matter=decides, assumed=f"it is {told[0]}" if decides else None)
        return told

    def _here(self) -> "str | None":
        """What is assumed at this line of the program's alone."""
        if not self._assume.places:
            return None
        return self._assume.at(self._places.innermost(sys._getframe(1)))


def _is_plain(tensor: torch.Tensor) -> bool:
    """Whether a tensor has sizes, which nested and sparse ones do not have as others do."""
    return tensor.layout == torch.strided and not tensor.is_nested


def _is_large(tensor: torch.Tensor) -> bool:
    is_fraction = tensor.dtype.is_floating_point or tensor.dtype.is_complex
    return tensor.numel() > (_ELEMENTS_MAX if is_fraction else _WHOLE_MAX)


def _share(how: "str | None") -> "float | None":
    if how is None:
        return None
    words = {"true": 1.0, "full": 1.0, "false": 0.0, "none": 0.0}
    try:
        share = words.get(how.lower())
        share = float(how) if share is None else share
    except ValueError:
        return None
    return share if 0 <= share <= 1 else None


def _number(how: str, tensor: torch.Tensor) -> "torch.Tensor | None":
    words = {"true": 1.0, "false": 0.0}
    try:
        number = words[how.lower()] if how.lower() in words else float(how)
        return torch.full(tensor.shape, number, dtype=tensor.dtype)
    except (ValueError, RuntimeError):
        return None
