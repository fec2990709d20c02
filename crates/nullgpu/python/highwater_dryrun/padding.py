"""Whether Inductor would find a product of matrices faster with padded operands: it times both, and here nothing takes time.

On a GPU a row that does not begin at a multiple of 16 bytes keeps the tensor cores waiting. The times are those of an H200, as
straight lines in operations and bytes; of 1,013 products of odd sizes, with operands that are padded in the same time or were
before, they decide 96 % as the card did. `crates/nullgpu/recipes/padding.py` measures and counts.
"""

from __future__ import annotations

from typing import Any

from highwater_dryrun import importing

_ALIGNED_BYTES = 16
_TERAFLOPS = {"half": (725.0, 136.0), "tf32": (331.0, 125.0)}
"""Of products whose rows are aligned, and of others; without tensor cores it is all the same."""
_LAUNCH_US = (4.2, 5.6)
_BYTES_PER_US = 2.0e6
_PAD_LAUNCH_US = 3.4
_PAD_BYTES_PER_US = {True: 2.2e6, False: 0.68e6}
"""By whether the matrix lies in rows; else it is transposed on the way."""
_PAYS_ABOVE = 1.1
"""As Inductor has it."""


def decide() -> None:
    """Decides where PyTorch would by time. It does run both ways, and takes the memory for that."""
    importing.after("torch._inductor.fx_passes.pad_mm", _hook)


def _hook(module: Any) -> None:
    # The first since torch 2.8, the other before.
    for name in ("_should_pad", "should_pad_bench"):
        timed = getattr(module, name, None)
        if timed is not None:
            setattr(module, name, _deciding(module, timed))


def _deciding(module: Any, timed: Any) -> Any:
    def should_pad(match: Any, mat1: Any, mat2: Any, op: Any, input: Any = None) -> Any:
        there = [module.should_exclude_padding_time(match, name) for name in ("mat1", "mat2")]
        # Both take the same time here, so that this alone decides.
        module._skip_do_bench_times = pays(mat1, mat2, padded_before=there)
        return timed(match, mat1, mat2, op, input)

    return should_pad


def pays(mat1: Any, mat2: Any, *, padded_before: "list[bool]") -> bool:
    """Whether ``mat1 @ mat2`` is faster with both padded to aligned sizes, each in this time or before."""
    cores = _tensor_cores(mat1)
    if cores is None:
        return False
    item = mat1.element_size()
    *batch, rows, inner = _numbers(mat1.shape)
    columns = _numbers(mat2.shape)[-1]
    count = batch[0] if batch else 1
    in_rows = [_numbers(matrix.stride())[-1] == 1 for matrix in (mat1, mat2)]
    contiguous = [inner if in_rows[0] else rows, columns if in_rows[1] else inner, columns]
    if all(_is_aligned(length, item) for length in contiguous):
        return False
    operations = 2 * count * rows * inner * columns
    moved = count * item * (rows * inner + inner * columns + rows * columns)
    aligned, unaligned = (
        launch + operations / (speed * 1e6) + moved / _BYTES_PER_US for launch, speed in zip(_LAUNCH_US, cores)
    )
    pads = 0.0
    for before, lengths, lies_in_rows in zip(padded_before, ((rows, inner), (inner, columns)), in_rows):
        if not before:
            each = _PAD_LAUNCH_US + 2 * count * item * lengths[0] * lengths[1] / _PAD_BYTES_PER_US[lies_in_rows]
            pads += each * sum(not _is_aligned(length, item) for length in lengths)
    return unaligned > _PAYS_ABOVE * (aligned + pads)


def _tensor_cores(matrix: Any) -> "tuple[float, float] | None":
    import torch

    if matrix.dtype in (torch.float16, torch.bfloat16):
        return _TERAFLOPS["half"]
    if matrix.dtype == torch.float32 and torch.get_float32_matmul_precision() != "highest":
        return _TERAFLOPS["tf32"]
    return None


def _is_aligned(length: int, item: int) -> bool:
    return length * item % _ALIGNED_BYTES == 0


def _numbers(sizes: Any) -> "list[int]":
    """Of sizes that are still open, those that the compiler has seen."""
    return [size if isinstance(size, int) else int(size.node.hint) for size in sizes]
