"""Follows the values of small tensors through the program: lengths, masks, positions, routes of experts.

Kernels of the null GPU do nothing, so a value that the program reads would be 0. Much of what programs decide by follows from the
program alone: it is worked out beside it on the CPU, and what a function reads of the device it is told
(:mod:`highwater_dryrun.sizes`). The functions themselves run as they are, so that they take the null GPU's memory in the very same
order; for that reason they are looked at where Python calls them and not below, where PyTorch goes other ways when it is watched.
"""

from __future__ import annotations

import functools
import threading
from typing import Any

import torch
from torch.nn.parameter import is_lazy
from torch.overrides import TorchFunctionMode, _get_current_function_mode_stack

from highwater_dryrun import compiled, core, exchange, importing, kernels, likely, sizes
from highwater_dryrun.arguments import UNKNOWN, flatten, on_cpu, replaced
from highwater_dryrun.arguments import target as target_of
from highwater_dryrun.mirrors import Mirrors, may_be_kept, share_storage, version
from highwater_dryrun.reads import Modules, Reads

_EXPERTS_MAX = 1024
"""A choice among more than so many is one of words, not of experts."""

_ABOUT_THE_TENSOR = frozenset(
    "__get__ __set__ __delete__ __hash__ __len__ __repr__ __format__ __dir__ __reduce_ex__ __deepcopy__ backward data_ptr dim "
    "element_size get_device is_contiguous is_floating_point is_complex is_inference is_pinned is_shared is_signed is_same_size "
    "ndimension nelement numel register_hook register_post_accumulate_grad_hook requires_grad_ retain_grad set_ size storage "
    "storage_offset stride type_as untyped_storage record_stream share_memory_ pin_memory as_subclass "
    "_is_view _typed_storage_classmethod typed_storage _version".split()
)
"""These do not look at what is in a tensor, or are nothing to be done twice."""
_READING = frozenset(
    "item tolist __bool__ __int__ __float__ __index__ __complex__ __contains__ equal allclose is_nonzero".split()
)
"""These give a value to Python."""
_CONVERTING = frozenset(
    "to cuda cpu type float double half bfloat16 int long short char byte bool clone contiguous detach alias".split()
)
"""These give the same values in another place or type."""
_OVERWRITING = frozenset("copy_ fill_ zero_ random_".split())
"""What these write does not depend on what was there."""
_EMPTY = frozenset("empty empty_strided empty_like new_empty new_empty_strided empty_permuted".split())
"""What these give has no content yet."""
_FAKE = torch._C._TorchDispatchModeKey.FAKE
"""While it is there, a compiler works out shapes."""
_IF_FINITE = {"isnan": False, "isinf": False, "isposinf": False, "isneginf": False, "isfinite": True}
"""Numbers that nobody knows are taken to be finite."""
_UNSCALING = "_amp_foreach_non_finite_check_and_unscale_"
"""What `torch.amp.GradScaler` asks whether gradients are finite, and writes the answer to its second argument."""
_OPERATORS = (torch._ops.OpOverload, torch._ops.OpOverloadPacket)
_DECIDED_BY = {"or": True, "and": False}


def begin(assume: "dict[str, str]") -> "Values":
    """Follows the values of this thread, and of those of PyTorch's that work for it, from now on."""
    values = Values(assume)
    values.__enter__()
    _hide()
    _see_lists(values)
    kernels.begin(values)
    values.exchange = exchange.begin(values.mirrors)
    compiled.step_aside(values, lambda: values.note_reads("compiled function", ()))
    _see_backward(values)
    importing.after("torch.utils.checkpoint", lambda module: _see_checkpoints(module, values))
    return values


class Values(TorchFunctionMode):
    """Sees every function of PyTorch's that Python calls."""

    def __init__(self, assume: "dict[str, str]") -> None:
        super().__init__()
        self.mirrors = Mirrors()
        self.exchange: "exchange.Exchange | None" = None
        self._reads = Reads(torch)
        self.modules = Modules(torch)
        self._assume = sizes.Assumptions(assume)
        self._likely = likely.Likely(self._known, self.mirrors, self._assume, self._reads)
        self._count_unknown = core.library().highwater_nullgpu_unknown_reads
        self._unknown_reads = self._count_unknown()
        self._selected = threading.local()
        """How many elements are set in masks that the function makes which this thread has called."""

    def reads(self) -> "list[dict[str, Any]]":
        """Reads that were told nothing."""
        return self._reads.listed(assumed=False)

    def assumptions(self) -> "list[dict[str, Any]]":
        """Reads that were told an assumption."""
        return self._reads.listed(assumed=True)

    def could_differ(self) -> bool:
        """Whether the size of something was assumed for which another is as good."""
        return self._reads.could_differ

    def last_read(self) -> "dict[str, Any] | None":
        """The last value that only a GPU could have computed."""
        return self._reads.last()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        if name in _ABOUT_THE_TENSOR or torch._C._get_dispatch_mode(_FAKE) is not None:
            return func(*args, **kwargs)
        if self.exchange is not None and isinstance(func, _OPERATORS):
            communicates, out = self.exchange.functional(func, args, kwargs)
            if communicates:
                return out
        tensors: "list[torch.Tensor]" = []
        flatten(args, tensors)
        if kwargs:
            flatten(kwargs.values(), tensors)
        if any(map(is_lazy, tensors)):
            # It has no size yet, and refuses whatever asks for one.
            return func(*args, **kwargs)
        told = self._tell(name, args, kwargs, tensors)
        target = target_of(name, args, kwargs)
        before = version(target) if target is not None and target.is_cuda else None
        found_before = version(args[1]) if name == _UNSCALING and len(args) > 1 else None
        # A target that is written is not what it was any more.
        inputs = self._inputs(name, tensors, target)
        guesses = self._likely.inputs(name, tensors, target) if inputs is None and target is not None else None
        try:
            if name == "resize_":
                return self.mirrors.resize(func, args, kwargs)
            out = func(*args, **kwargs)
        except BaseException:
            # A traceback would keep what it was called with.
            args = kwargs = tensors = target = inputs = guesses = None
            raise
        finally:
            if told:
                core.answer_reads([])
                # What else it reads checks what it was told.
                self._unknown_reads = self._count_unknown()
        if name == _UNSCALING and len(args) > 1:
            self._unscaled(args[1], found_before)
        if name in _READING:
            return self._read(name, func, args, kwargs, tensors, inputs, out)
        self._follow(name, func, args, kwargs, tensors, inputs, guesses, target, before, out)
        self.note_reads(name, tensors)
        return out

    def _tell(self, name: str, args: Any, kwargs: Any, tensors: Any) -> bool:
        """Says what the function is about to read."""
        self._selected.count = None
        asked = sizes.Asked(self._known, self._assume, self._likely)
        rule = sizes.RULES.get(name)
        if rule is not None:
            if any(tensor.is_cuda for tensor in tensors):
                try:
                    rule(asked, *args, **kwargs)
                except TypeError:
                    # Arguments by names that a later PyTorch has.
                    return False
        else:
            # A number of Python's may be given as a tensor.
            for tensor in tensors:
                is_number = tensor.dim() == 0 or (name == "resize_" and tensor is not args[0] and tensor.numel() == 1)
                if is_number and (self.mirrors.holds(tensor) or self._likely.holds(tensor)):
                    asked.scalar(tensor)
        # Numbers in a sum are noted where Python reads them.
        if asked.assumed is not None and rule is not None:
            self._reads.note(name, may_matter=True, assumed=asked.assumed)
        self._selected.count = asked.selected
        if asked.answers:
            core.answer_reads(asked.answers)
        return bool(asked.answers)

    def told_of_mask(self, mask: torch.Tensor) -> int:
        """How much of a mask is set, of which no function of Python's may know: autograd's threads index by masks, too."""
        selected = getattr(self._selected, "count", None)
        if selected is not None:
            return min(selected, mask.numel())
        value = self.mirrors.get(mask)
        if value is None:
            value = self._likely.mask(mask)
            self._reads.note("nonzero", may_matter=True, assumed=self._likely.words(value), differs=True)
        return int(value.count_nonzero())

    def told_of_places(self, tensor: torch.Tensor) -> int:
        """The number of different places of a sparse tensor's elements; the call may come from inside an operator."""
        count, assumed = sizes.different_places(tensor, self._known(tensor._indices()))
        if assumed is not None:
            self.note_assumed("coalesce", assumed)
        return count

    def follow_places(self, parts: "list[torch.Tensor]", make: "Callable[[], torch.Tensor]") -> torch.Tensor:
        """The sparse tensor that ``make`` gives: its elements are those of each part in turn, each in its place."""
        places = [self._known(part._indices()) for part in parts]
        out = make()
        known = [part for part in places if part is not None]
        if len(known) == len(parts) and out.layout == torch.sparse_coo and may_be_kept(out._indices()):
            together = torch.cat(known, dim=1)
            if together.shape == out._indices().shape:
                self.mirrors.put(out._indices(), together, is_new=True)
        return out

    def note_assumed(self, what: str, how: str) -> None:
        """Notes an assumption about an operator that may run inside another one."""
        self._reads.note(what, may_matter=True, assumed=how)

    def _known(self, tensor: torch.Tensor) -> "torch.Tensor | None":
        if tensor.is_cuda:
            return self.mirrors.get(tensor)
        return tensor if tensor.device.type == "cpu" and may_be_kept(tensor) else None

    def _inputs(self, name: str, tensors: Any, target: Any) -> "dict[int, torch.Tensor] | None":
        """What is known of the arguments, by their identity; ``None`` if it is not enough."""
        if name in UNKNOWN:
            return None
        shape_only = name.endswith("_like") or name.startswith("new_")
        inputs: "dict[int, torch.Tensor]" = {}
        for tensor in tensors:
            value = self._known(tensor)
            if value is None and (shape_only or (tensor is target and name in _OVERWRITING)):
                if not may_be_kept(tensor):
                    return None
                value = torch.empty(tensor.shape, dtype=tensor.dtype)
            if value is None and tensor is target:
                value = self.mirrors.zeros_if_unwritten(tensor)
            if value is None and name in ("nonzero", "where", "argwhere") and len(tensors) == 1:
                # As much is set as the function was told.
                value = self._likely.mask(tensor).to(tensor.dtype)
            if value is None:
                return None
            # What is written is not to be the copy itself.
            inputs[id(tensor)] = value.clone() if tensor is target else value
        return inputs

    def _unscaled(self, found: torch.Tensor, before: "int | None") -> None:
        """Notes whether a scaler of gradients has found one that is not finite."""
        how = "each step is left out" if self._assume.overflows else "no gradient overflows"
        # The first steps of a real run overflow until the scale fits, and the optimizer has no state until one does not.
        self._reads.note("unscale", may_matter=True, assumed=how, differs=True)
        self.mirrors.put(found, torch.full(found.shape, float(self._assume.overflows)), before=before)

    def _read(self, name: str, func: Any, args: Any, kwargs: Any, tensors: Any, inputs: Any, out: Any) -> Any:
        """A value for Python: the one that is known, else what the device gave."""
        if inputs is not None and any(tensor.is_cuda for tensor in tensors):
            self._unknown_reads = self._count_unknown()
            return func(*replaced(args, inputs), **replaced(kwargs, inputs))
        told = self._likely.read(name, func, args, kwargs, tensors)
        if told is None:
            self.note_reads(name, tensors)
            return out
        self._unknown_reads = self._count_unknown()
        return told[0]

    def _follow(
        self,
        name: str,
        func: Any,
        args: Any,
        kwargs: Any,
        tensors: Any,
        inputs: Any,
        guesses: Any,
        target: Any,
        before: Any,
        out: Any,
    ) -> None:
        """Works out what the function has written."""
        results: "list[torch.Tensor]" = []
        flatten((out,) if target is None else (target,), results)
        if not any(result.is_cuda for result in results):
            self._bring_home(name, tensors, inputs, results)
            return
        self._likely.follow_numbers(name, args, kwargs, results)
        # Fractions that are made of whole numbers are no less certain: a mask of padding is resized as a picture.
        is_whole = name in _CONVERTING and bool(tensors) and not _is_fraction(tensors[0])
        # Of those that are drawn, how many are below a limit is known as well.
        is_whole = is_whole or name in likely.DRAWING
        if not any(may_be_kept(result, is_whole=is_whole) for result in results):
            return
        if name in _EMPTY and target is None:
            self.mirrors.note_unwritten(results[0])
            return
        values = self._worked_out(name, func, args, kwargs, tensors, inputs, target)
        if values is None:
            values = self._decided(name, tensors, results)
        if values is None and name in _IF_FINITE:
            values = [torch.full(results[0].shape, _IF_FINITE[name])]
        if values is None and name == "topk":
            values = self._routed(args, kwargs, results)
        if values is None or len(values) != len(results):
            self._likely.follow(name, func, args, kwargs, tensors, target, guesses, before, results)
            return
        for result, value in zip(results, values):
            fits = value is not None and value.shape == result.shape
            kept = fits and result.is_cuda and may_be_kept(result, is_whole=is_whole)
            if kept and (target is not None or not self.mirrors.holds(result)):
                is_new = target is None and not any(share_storage(result, tensor) for tensor in tensors)
                self.mirrors.put(result, value, before=before, is_new=is_new)

    def _worked_out(
        self, name: str, func: Any, args: Any, kwargs: Any, tensors: Any, inputs: Any, target: Any
    ) -> "list[Any] | None":
        """What the function gives on the CPU, of values that are all known."""
        if inputs is None:
            return None
        if name in _CONVERTING and len(tensors) >= 1:
            return [inputs[id(tensors[0])]]
        given = on_cpu(name, func, args, kwargs, inputs)
        if given is None:
            return None
        if target is not None:
            return [inputs[id(target)]]
        values: "list[torch.Tensor]" = []
        flatten(given, values)
        return values

    def _decided(self, name: str, tensors: Any, results: Any) -> "list[Any] | None":
        """True or anything, false and anything: what one of two values decides alone. A length that is reached ends a program
        whatever else might have."""
        base = name.strip("_").replace("bitwise_", "").replace("logical_", "")
        decides = _DECIDED_BY.get(base) if base in _DECIDED_BY else _DECIDED_BY.get(base[1:])
        if decides is None or len(tensors) != 2:
            return None
        for tensor in tensors:
            value = self._known(tensor)
            if value is None or not value.numel():
                continue
            if (decides and value.dtype == torch.bool and bool(value.all())) or (not decides and not bool(value.any())):
                return [torch.full(results[0].shape, decides, dtype=results[0].dtype)]
        return None

    def _routed(self, args: Any, kwargs: Any, results: Any) -> "list[Any] | None":
        """The experts that scores which nobody knows would choose: each as often as the others, of those with the likeliest scores."""
        scores, count = args[0], args[1] if len(args) > 1 else kwargs.get("k", 0)
        experts = scores.shape[-1] if scores.dim() else 1
        if not self._assume.balanced or len(results) != 2 or not 0 < count < experts <= _EXPERTS_MAX:
            return None
        how = "about as often" if self._assume.uneven else "as often"
        assumed = f"{count} of {experts} are chosen, each {how} as the others"
        self._reads.note("topk", may_matter=True, assumed=assumed, differs=True)
        likely = self._likely.value(scores)
        # Each layer chooses for itself, and in each step anew.
        router = self.modules.now() if self._assume.uneven else 0
        if likely is None or likely.shape[:-1] != results[1].shape[:-1]:
            # Along another dimension, too.
            return [None, self._assume.route(results[1].shape, experts, router=router)]
        largest = args[3] if len(args) > 3 else kwargs.get("largest", True)
        route = self._assume.route(results[1].shape, experts, likely if largest else -likely, router)
        self._likely.choose(results[0], likely.gather(-1, route))
        return [None, route]

    def _bring_home(self, name: str, tensors: Any, inputs: Any, results: Any) -> None:
        """A copy from the device to the host: zeros, unless what was copied is known."""
        sources = [tensor for tensor in tensors if tensor.is_cuda]
        if len(results) != 1 or len(sources) != 1 or not (name in _CONVERTING or name == "copy_"):
            return
        value = self._known(sources[0])
        if value is None and sources[0].numel() == 1:
            value = self._likely.value(sources[0])
        if value is None and sources[0].dtype == torch.bool and sources[0].numel() > 1:
            # As if it had indexed on the device.
            value = self._likely.mask(sources[0])
            self._reads.note(name, may_matter=True, assumed=self._likely.words(value))
        if value is not None and value.shape == results[0].shape:
            with torch.no_grad():
                results[0].copy_(value)
            self._unknown_reads = self._count_unknown()

    def note_reads(self, name: str, tensors: Any) -> None:
        """Notes what a function has read since the last one, and was not told."""
        unknown = self._count_unknown()
        if unknown == self._unknown_reads:
            return
        count, self._unknown_reads = unknown - self._unknown_reads, unknown
        fraction = bool(tensors) and tensors[-1].dtype.is_floating_point
        self._reads.note(name.strip("_"), may_matter=not fraction, count=count)


def _is_fraction(tensor: torch.Tensor) -> bool:
    return tensor.dtype.is_floating_point or tensor.dtype.is_complex


def _see_backward(values: Values) -> None:
    """Sees what a function's own backward pass does, in autograd's threads too: checkpointing repeats the forward pass there."""
    node = torch.autograd.function.BackwardCFunction
    apply = node.apply

    @functools.wraps(apply)
    def seen(self: Any, *gradients: Any) -> Any:
        if self._forward_cls.__name__ == "CompiledFunction":
            # It is its compiler's, and what that reads is not the next function's.
            out = apply(self, *gradients)
            values.note_reads("compiled function", ())
            return out
        if values in _get_current_function_mode_stack():
            return apply(self, *gradients)
        with values:
            return apply(self, *gradients)

    node.apply = seen


def _see_checkpoints(module: Any, values: Values) -> None:
    """Sees what a checkpoint computes again, which autograd does where nothing looks at it."""
    frame = getattr(module, "_CheckpointFrame", None)
    if frame is None:
        return
    begin = frame.__init__

    @functools.wraps(begin)
    def seen(self: Any, recompute: Any, *more: Any, **options: Any) -> None:
        @functools.wraps(recompute)
        def again(*args: Any, **kwargs: Any) -> Any:
            if values in _get_current_function_mode_stack():
                return recompute(*args, **kwargs)
            with values:
                return recompute(*args, **kwargs)

        begin(self, again, *more, **options)

    frame.__init__ = seen


def _see_lists(values: Values) -> None:
    """Sees ``tolist`` too, of which no mode is told."""
    tolist = torch.Tensor.tolist

    def seen(tensor: torch.Tensor) -> Any:
        with torch._C.DisableTorchFunction():
            return values.__torch_function__(tolist, (), (tensor,))

    torch.Tensor.tolist = seen  # type: ignore[method-assign]


def _hide() -> None:
    """Keeps the program from going other ways because it is looked at."""
    import torch.overrides as overrides

    asked = overrides.has_torch_function

    def has_torch_function(arguments: Any) -> bool:
        plain = (torch.Tensor, torch.nn.Parameter)
        return asked(arguments) and any(
            type(argument) not in plain and hasattr(type(argument), "__torch_function__") for argument in arguments
        )

    # `torch.nn.MultiheadAttention` and `TransformerEncoder` have a fast path for what nobody looks at.
    overrides.has_torch_function = has_torch_function
