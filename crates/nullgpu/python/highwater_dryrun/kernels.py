"""Operators that read the size of their result from the device, and run where no function mode sees them: in autograd's threads, or
inside other operators.

Indexing by a mask, selecting by one and their backward passes call `nonzero`; the backward pass of a matrix exponential is another
matrix exponential; and products of sparse matrices first add up the elements of one place. So each operator is replaced where PyTorch
picks the device's kernel: the replacement supplies the value that is about to be read, and calls the same kernel.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch

from highwater_dryrun import core

_NORM = 4.0
"""An ordinary one: it takes the longest polynomial, and one squaring."""
_kept: "list[torch.library.Library]" = []


def begin(
    count: "Callable[[torch.Tensor], int]", different: "Callable[[torch.Tensor], int]", note: "Callable[[str, str], None]"
) -> None:
    """Has `nonzero` read what ``count`` says of a mask, from now on, and `coalesce` what ``different`` says of the places of a sparse
    tensor; ``note`` is told which operator was told what besides."""
    library = torch.library.Library("aten", "IMPL")
    _replace(library, "nonzero", _nonzero(count))
    get_kernel = getattr(torch.library, "get_kernel", None)
    if get_kernel is not None:
        plain = get_kernel("aten::linalg_matrix_exp", "CUDA")
        _replace(library, "linalg_matrix_exp", _matrix_exp(plain, note), with_keyset=True)
        plain = get_kernel("aten::_coalesce", "SparseCUDA")
        _replace(library, "_coalesce", _coalesce(plain, different), "SparseCUDA", with_keyset=True)
    # With the library the replacements would go.
    _kept.append(library)


def _replace(
    library: "torch.library.Library", name: str, new: "Callable[..., Any]", device: str = "CUDA", **options: Any
) -> None:
    with warnings.catch_warnings():
        # That a kernel is replaced, which is what is wanted.
        warnings.simplefilter("ignore")
        if "allow_override" in torch.library.Library.impl.__code__.co_varnames:
            options["allow_override"] = True
        library.impl(name, new, device, **options)


def _nonzero(count: "Callable[[torch.Tensor], int]") -> "Callable[[torch.Tensor], torch.Tensor]":
    """The places of what is not zero: as many as the values say."""

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

    return nonzero


def _matrix_exp(plain: Any, note: "Callable[[str, str], None]") -> "Callable[..., torch.Tensor]":
    """Matrix exponentials: PyTorch sorts the matrices by how often they have to be squared, and reads how many there are of each kind."""

    def matrix_exp(keys: Any, matrices: torch.Tensor) -> torch.Tensor:
        with torch._C.DisableTorchFunction():
            size = matrices.shape[-1]
            count = matrices.numel() // (size * size) if size else 0
            answers = []
            if count == 1:
                # Of a single one the norm is read first.
                norm = torch.full((1,), _NORM, dtype=matrices.dtype.to_real())
                answers.append(bytes(norm.view(torch.uint8).tolist()))
            if size > 1 and count:
                note("matrix_exp", "every matrix is squared once")
                answers.append(core.number(1))
                answers.append(bytes(torch.tensor([count, 1]).view(torch.uint8).tolist()))
            core.answer_reads(answers)
            try:
                return plain.call_boxed(keys, matrices)  # type: ignore[no-any-return]
            finally:
                core.answer_reads([])

    return matrix_exp


def _coalesce(plain: Any, different: "Callable[[torch.Tensor], int]") -> "Callable[..., torch.Tensor]":
    """A sparse tensor's elements, those of one place added up: reads how many places there are."""

    def coalesce(keys: Any, tensor: torch.Tensor) -> torch.Tensor:
        with torch._C.DisableTorchFunction():
            if not tensor.is_coalesced() and tensor._nnz() > 1:
                core.answer_reads([core.number(different(tensor))])
            try:
                return plain.call_boxed(keys, tensor)  # type: ignore[no-any-return]
            finally:
                core.answer_reads([])

    return coalesce
