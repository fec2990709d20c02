"""The places of what is not zero: the result is as large as the values say.

What indexes by a mask, selects by one or asks for its places comes here, and so do the backward passes of those, which run in
autograd's threads where no mode sees them. So the operator is replaced below them all, where PyTorch picks the kernel of the device:
the new one says what is about to be read and calls the same kernel.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable

import torch

from highwater_dryrun import core

_kept: "list[torch.library.Library]" = []


def begin(count: "Callable[[torch.Tensor], int]") -> None:
    """Has the kernel read what ``count`` says of a mask, from now on."""

    def nonzero(mask: torch.Tensor) -> torch.Tensor:
        with torch._C.DisableTorchFunction():
            # As the kernel makes it.
            places = torch.empty((0,), dtype=torch.int64, device=mask.device)
            if mask.numel():
                core.answer_reads([core.number(count(mask))])
            try:
                return torch.ops.aten.nonzero.out(mask, out=places)  # type: ignore[no-any-return]
            finally:
                core.answer_reads([])

    library = torch.library.Library("aten", "IMPL")
    with warnings.catch_warnings():
        # That a kernel is replaced, which is what is wanted.
        warnings.simplefilter("ignore")
        if "allow_override" in torch.library.Library.impl.__code__.co_varnames:
            library.impl("nonzero", nonzero, "CUDA", allow_override=True)
        else:
            library.impl("nonzero", nonzero, "CUDA")
    # With the library the replacement would go.
    _kept.append(library)
