"""`torch.compile`: its compiler is to see the program and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch.overrides import TorchFunctionMode, _len_torch_function_stack, _pop_mode, _push_mode

from highwater_dryrun import importing


def step_aside(mode: TorchFunctionMode, then: "Callable[[], None]") -> None:
    """Takes ``mode`` away while a compiled function runs, or it would be compiled with it; calls ``then`` after each."""

    def hook(module: Any) -> None:
        context = module._TorchDynamoContext
        begin = context.__init__

        def init(self: Any, *args: Any, **kwargs: Any) -> None:
            begin(self, *args, **kwargs)
            # Others switch the compiler off.
            if callable(self.callback):
                self.enter_exit_hooks.append(lambda: _take_out(mode, then))

        context.__init__ = init

    importing.after("torch._dynamo.eval_frame", hook)


def _take_out(mode: TorchFunctionMode, then: "Callable[[], None]") -> "Callable[[], None]":
    """Takes a mode out of this thread's; gives what puts it back where it was."""
    modes = _pop_all()
    _push_all(other for other in modes if other is not mode)
    if mode not in modes:
        # A compiled function calls another.
        return lambda: None
    at = modes.index(mode)

    def put_back() -> None:
        now = _pop_all()
        _push_all([*now[:at], mode, *now[at:]])
        then()

    return put_back


def _pop_all() -> "list[Any]":
    """The modes of this thread, the outermost first, of which none is left."""
    modes = [_pop_mode() for _ in range(_len_torch_function_stack())]
    return modes[::-1]


def _push_all(modes: Any) -> None:
    for mode in modes:
        _push_mode(mode)
