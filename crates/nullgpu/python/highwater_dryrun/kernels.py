"""Operators that read the size of their result from the device, and run where no function mode sees them: in autograd's threads, or
inside other operators.

Indexing by a mask, selecting by one and their backward passes call `nonzero`; the backward pass of a matrix exponential is another
matrix exponential; and products of sparse matrices first add up the elements of one place. So each operator is replaced where PyTorch
picks the device's kernel: the replacement supplies the value that is about to be read, and calls the same kernel.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, Protocol

import torch

from highwater_dryrun import core

_NORM = 4.0
"""The norm of every matrix: it needs the longest polynomial, and one squaring."""
_kept: "list[torch.library.Library]" = []


class Values(Protocol):
    """What is known of tensors' contents."""

    def told_of_mask(self, mask: torch.Tensor) -> int:
        """How many elements of a mask are set."""

    def told_of_places(self, tensor: torch.Tensor) -> int:
        """The number of different places of a sparse tensor's elements."""

    def follow_places(self, parts: "list[torch.Tensor]", make: "Callable[[], torch.Tensor]") -> torch.Tensor:
        """The sparse tensor that ``make`` gives, with the elements of each part in turn."""

    def note_assumed(self, what: str, how: str) -> None:
        """Takes the name of another operator, and its assumption."""


def begin(values: Values) -> None:
    """From now on operators read numbers that follow from ``values``, and tell them of what they write."""
    library = torch.library.Library("aten", "IMPL")
    _replace(library, "nonzero", _nonzero(values.told_of_mask))
    get_kernel = getattr(torch.library, "get_kernel", None)
    if get_kernel is not None:
        plain = get_kernel("aten::linalg_matrix_exp", "CUDA")
        _replace(library, "linalg_matrix_exp", _matrix_exp(plain, values.note_assumed), with_keyset=True)
        plain = get_kernel("aten::_coalesce", "SparseCUDA")
        _replace(library, "_coalesce", _coalesce(plain, values.told_of_places), "SparseCUDA", with_keyset=True)
        for name in ("add.Tensor", "add_.Tensor", "clone"):
            plain = get_kernel(f"aten::{name}", "SparseCUDA")
            _replace(library, name, _followed(plain, values.follow_places), "SparseCUDA", with_keyset=True)
    # The replacements last as long as the library object.
    _kept.append(library)


def _replace(
    library: "torch.library.Library", name: str, new: "Callable[..., Any]", device: str = "CUDA", **options: Any
) -> None:
    with warnings.catch_warnings():
        # PyTorch warns that a kernel is replaced: this is intended.
        warnings.simplefilter("ignore")
        if "allow_override" in torch.library.Library.impl.__code__.co_varnames:
            options["allow_override"] = True
        library.impl(name, new, device, **options)


def _nonzero(count: "Callable[[torch.Tensor], int]") -> "Callable[[torch.Tensor], torch.Tensor]":
    """The places of the elements that are not zero: as many as ``count`` gives."""

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
                # The norm of a single matrix is read first.
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
    """A sparse tensor with the elements of each place added up: PyTorch reads the number of places."""

    def coalesce(keys: Any, tensor: torch.Tensor) -> torch.Tensor:
        with torch._C.DisableTorchFunction():
            if not tensor.is_coalesced() and tensor._nnz() > 1:
                core.answer_reads([core.number(different(tensor))])
            try:
                return plain.call_boxed(keys, tensor)  # type: ignore[no-any-return]
            finally:
                core.answer_reads([])

    return coalesce


def _followed(plain: Any, follow: "Callable[..., torch.Tensor]") -> "Callable[..., torch.Tensor]":
    """Autograd's threads copy the sparse gradient of an embedding, and add those of one that is used twice."""

    def copy_or_sum(keys: Any, *parts: torch.Tensor, **options: Any) -> torch.Tensor:
        with torch._C.DisableTorchFunction():

            def make() -> torch.Tensor:
                return plain.call_boxed(keys, *parts, **options)  # type: ignore[no-any-return]

            return follow(list(parts), make) if all(part.layout == torch.sparse_coo for part in parts) else make()

    return copy_or_sum
