"""The tensors among the arguments of a function, and the same arguments with values in their place."""

from __future__ import annotations

from typing import Any

import torch

UNKNOWN = frozenset(
    "empty empty_strided empty_like new_empty new_empty_strided empty_permuted "
    "rand randn rand_like randn_like normal uniform_ normal_ exponential_ cauchy_ log_normal_ geometric_ bernoulli bernoulli_ "
    "dropout multinomial".split()
)
"""What these give, nobody knows."""


def target(name: str, args: Any, kwargs: Any) -> "torch.Tensor | None":
    """The tensor that a function writes to, if it is one that was there before."""
    written = kwargs.get("out")
    in_place = (name.endswith("_") and not name.endswith("__")) or name == "__setitem__" or name.startswith("__i")
    if written is None and in_place and name not in ("__index__", "__int__", "__invert__", "__iter__"):
        written = args[0] if args else None
    return written if isinstance(written, torch.Tensor) else None


def flatten(arguments: Any, found: "list[torch.Tensor]") -> None:
    """Adds all tensors of the arguments."""
    for argument in arguments:
        if isinstance(argument, torch.Tensor):
            found.append(argument)
        elif isinstance(argument, (list, tuple)):
            flatten(argument, found)
        elif isinstance(argument, slice):
            flatten((argument.start, argument.stop, argument.step), found)


def replaced(arguments: Any, values: "dict[int, torch.Tensor]") -> Any:
    """The arguments with values in the place of the tensors, by their identity, and the CPU in that of a device."""
    if isinstance(arguments, torch.Tensor):
        return values[id(arguments)]
    if isinstance(arguments, dict):
        return {name: replaced(argument, values) for name, argument in arguments.items()}
    if isinstance(arguments, (list, tuple)) and type(arguments) in (list, tuple):
        return type(arguments)(replaced(argument, values) for argument in arguments)
    if isinstance(arguments, slice):
        return slice(*(replaced(bound, values) for bound in (arguments.start, arguments.stop, arguments.step)))
    if isinstance(arguments, torch.device):
        return torch.device("cpu")
    return arguments


_DRAWING = frozenset("randint randint_like randperm random_".split())
"""What draws random numbers is not to change those that the program draws."""


def on_cpu(name: str, func: Any, args: Any, kwargs: Any, values: "dict[int, torch.Tensor]") -> "tuple[Any] | None":
    """What a function gives on the CPU, with values in the place of the tensors; ``None`` if the CPU cannot do that."""
    options = replaced(kwargs, values)
    options.pop("generator", None)
    options.pop("pin_memory", None)
    if "device" in options:
        options["device"] = "cpu"
    state = torch.random.get_rng_state() if name in _DRAWING else None
    try:
        return (func(*replaced(args, values), **options),)
    except Exception:
        return None
    finally:
        if state is not None:
            torch.random.set_rng_state(state)
