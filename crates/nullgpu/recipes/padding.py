"""Products of matrices of odd sizes, with and without padding, on a card; and how often `highwater_dryrun/padding.py` decides as
their times do.

    python crates/nullgpu/recipes/padding.py measure times.json 110     # on a GPU: for 110 seconds
    python crates/nullgpu/recipes/padding.py count times.json           # anywhere
"""

from __future__ import annotations

import itertools
import json
import random
import sys
import time
from pathlib import Path

import torch

SIZES = [64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384]
VOCABULARIES = [32000, 50256, 128256, 151936]
KINDS = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32, "tf32": torch.float32}
MOST, LEAST = 2**41, 2**21


def measure(path: Path, seconds: float) -> None:
    from torch._inductor.runtime.benchmarking import benchmarker

    random.seed(7)
    rows, end = [], time.monotonic() + seconds
    while time.monotonic() < end:
        m, k, n = (random.choice(SIZES) for _ in range(3))
        if random.random() < 0.25:
            n = random.choice(VOCABULARIES)
        if not LEAST < m * k * n < MOST:
            continue
        odd = random.choice(["k", "n", "m", "kn", "mn", "mk", "mkn"])
        m, k, n = (size - random.choice([1, 2, 3, 5]) * (name in odd) for size, name in ((m, "m"), (k, "k"), (n, "n")))
        transposed = [random.random() < 0.3, random.random() < 0.6]
        kind = random.choice(list(KINDS))
        torch.backends.cuda.matmul.allow_tf32 = kind == "tf32"
        a, b = (_made(shape, KINDS[kind], t) for shape, t in zip(((m, k), (k, n)), transposed))
        padded = [_padded(a), _padded(b)]
        times = {
            "plain": lambda: a @ b,
            "padded": lambda: padded[0] @ padded[1],
            "pad1": lambda: _padded(a),
            "pad2": lambda: _padded(b),
        }
        row = {name: benchmarker.benchmark_gpu(call, warmup=5) for name, call in times.items()}
        rows.append({"m": m, "k": k, "n": n, "transposed": transposed, "kind": kind, **row})
    path.write_text(json.dumps(rows))


def _made(shape: tuple[int, int], dtype: torch.dtype, transposed: bool) -> torch.Tensor:
    made = torch.randn(shape[::-1] if transposed else shape, device="cuda", dtype=dtype)
    return made.t() if transposed else made


def _padded(matrix: torch.Tensor) -> torch.Tensor:
    """Padded as Inductor does it, a dimension after the other."""
    step = 16 // matrix.element_size()
    for dimension in (1, 0):
        if missing := -matrix.shape[dimension] % step:
            shape = list(matrix.shape)
            shape[dimension] = missing
            matrix = torch.cat([matrix, matrix.new_zeros(shape)], dimension)
    return matrix


def count(path: Path) -> None:
    sys.path.insert(0, str(Path(__file__).parents[1] / "python"))
    from highwater_dryrun.padding import pays

    rows = json.loads(path.read_text())
    for before in itertools.product([False, True], repeat=2):
        right = sum(_pays(row, before) == pays(*_matrices(row), padded_before=list(before)) for row in rows)
        print(f"padded before {before}: {right} of {len(rows)} as the card")


def _pays(row: dict, before: tuple[bool, ...]) -> bool:
    step = 4 if row["kind"].endswith("32") else 8
    odd = [row["m"] % step or row["k"] % step, row["k"] % step or row["n"] % step]
    pads = sum(row[name] for name, was, is_odd in zip(("pad1", "pad2"), before, odd) if is_odd and not was)
    return row["plain"] > 1.1 * (row["padded"] + pads)


def _matrices(row: dict) -> tuple[torch.Tensor, torch.Tensor]:
    torch.set_float32_matmul_precision("high" if row["kind"] == "tf32" else "highest")
    shapes = ((row["m"], row["k"]), (row["k"], row["n"]))
    empty = [
        torch.empty(shape[::-1] if t else shape, device="meta", dtype=KINDS[row["kind"]])
        for shape, t in zip(shapes, row["transposed"])
    ]
    return tuple(matrix.t() if t else matrix for matrix, t in zip(empty, row["transposed"]))


if __name__ == "__main__":
    if sys.argv[1] == "measure":
        measure(Path(sys.argv[2]), float(sys.argv[3]))
    else:
        count(Path(sys.argv[2]))
