"""The second iteration of `DistributedDataParallel`, in which it makes its buckets of gradients anew.

A thread of PyTorch's looks every 100 ms which collectives are done, and lets go of what they wrote. On a GPU the first iteration loads
kernels and takes longer than that, so the old buckets are free when the new ones are made. Here it may take less.
"""

from __future__ import annotations

import functools
import time
import weakref
from typing import Any

from highwater_dryrun import core, importing

_LOOKS_SECS = 0.1
"""From look to look of the thread: `kWatchdogThreadSleepMillis` of ProcessGroupNCCL."""


def begin() -> None:
    """Gives the thread its time, once the program imports DDP."""
    importing.after("torch.nn.parallel.distributed", _hook)


def _hook(module: Any) -> None:
    ddp = module.DistributedDataParallel
    plain = getattr(ddp, "_pre_forward", None)
    if plain is None:
        return
    begun: "weakref.WeakKeyDictionary[Any, int]" = weakref.WeakKeyDictionary()

    @functools.wraps(plain)
    def pre_forward(self: Any, *arguments: Any, **options: Any) -> Any:
        begun[self] = begun.get(self, 0) + 1
        if begun[self] == 2:
            core.library().highwater_nullgpu_catch_up()
            time.sleep(3 * _LOOKS_SECS)
        return plain(self, *arguments, **options)

    ddp._pre_forward = pre_forward
