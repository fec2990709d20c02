#!/usr/bin/env python3
"""How much scratch memory cuDNN's recurrent networks and cuSOLVER ask for: drawn sizes, a line each, as CSV. Needs a GPU with PyTorch.

    workspaces.py recurrent OUT.csv 400
    workspaces.py solver OUT.csv 400

Both libraries answer without running anything, so a million networks take a minute. `testdata/workspaces/recurrent.csv` has 420 of 1.3 million
(cuDNN 9.19, an H200): algorithm, mode and kind are the numbers of `cudnnRNNAlgo_t`, `cudnnRNNMode_t` and `cudnnDataType_t`; sizes are bytes.
"""

import csv
import ctypes
import math
import random
import sys

import torch

I, P = ctypes.c_int, ctypes.c_void_p
LETTERS = "SDCZ"


def main():
    what, out, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
    random.seed(1)
    torch.nn.LSTM(8, 8).cuda()(torch.randn(3, 2, 8, device="cuda"))
    torch.linalg.qr(torch.randn(64, 64, device="cuda"))
    header, rows = {"recurrent": recurrent, "solver": solver}[what](count)
    with open(out, "w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([header, *rows])


def loaded(name):
    """A library that PyTorch has loaded."""
    with open("/proc/self/maps") as maps:
        return ctypes.CDLL(next(line.split()[-1] for line in maps if f"/{name}.so" in line))


def drawn(least, most):
    """Small sizes as often as large ones, many of them round."""
    size = round(math.exp(random.uniform(math.log(least), math.log(most))))
    return random.choice([size, -(-size // 8) * 8, 1 << size.bit_length() - 1])


def recurrent(count):
    cudnn = loaded("libcudnn")
    handle, network, data, size = P(), P(), P(), ctypes.c_size_t()
    cudnn.cudnnCreate(ctypes.byref(handle))
    cudnn.cudnnCreateRNNDescriptor(ctypes.byref(network))
    cudnn.cudnnCreateRNNDataDescriptor(ctypes.byref(data))
    cudnn.cudnnDropoutGetStatesSize(handle, ctypes.byref(size))
    states, dropouts = torch.zeros(size.value, dtype=torch.uint8, device="cuda"), [P(), P()]
    for share, dropout in zip((0.0, 0.3), dropouts):
        cudnn.cudnnCreateDropoutDescriptor(ctypes.byref(dropout))
        cudnn.cudnnSetDropoutDescriptor(dropout, handle, ctypes.c_float(share), P(states.data_ptr()), size, ctypes.c_ulonglong(1))

    def memory(is_training):
        work, reserve = ctypes.c_size_t(), ctypes.c_size_t()
        status = cudnn.cudnnGetRNNTempSpaceSizes(handle, network, I(is_training), data, ctypes.byref(work), ctypes.byref(reserve))
        return status, work.value, reserve.value

    rows = []
    while len(rows) < count:
        # The standard one, and those whose weights stay on the multiprocessors: of half-precision networks, and of narrow ones.
        algorithm, mode, layers, directions = random.choice([0, 0, 0, 1, 3]), random.choice([0, 2, 2, 3]), random.randint(1, 4), random.randint(1, 2)
        kind = 2 if algorithm == 1 else random.choice([0, 0, 1, 2, 9])
        hidden, width = drawn(4, 192 if algorithm == 3 else 2048), drawn(2, 2048)
        projected = drawn(2, hidden - 1) if mode == 2 and algorithm == 0 and random.random() < 0.5 else hidden
        dropout, packed = random.randint(0, 1) if layers > 1 else 0, random.randint(0, 1)
        batch, longest = drawn(1, 256), drawn(1, 1000)
        lengths = sorted([longest] + [random.randint(1, longest) if packed else longest for _ in range(batch - 1)], reverse=True)
        numbers = [algorithm, mode, 2, directions - 1, 0, kind, int(kind == 1), int(kind == 2), width, hidden, projected, layers]
        cudnn.cudnnSetRNNDescriptor_v8(network, *map(I, numbers), dropouts[dropout], ctypes.c_uint(1 - packed))
        each, padding = (I * batch)(*lengths), ctypes.c_double(0)
        cudnn.cudnnSetRNNDataDescriptor(data, I(kind), I(packed), I(longest), I(batch), I(width), each, ctypes.byref(padding))
        (failed, inference, _), (fails, training, reserve) = memory(0), memory(1)
        if not failed and not fails:
            sizes = [width, hidden, projected, dropout, packed, batch, longest, sum(lengths)]
            rows.append([algorithm, mode, kind, layers, directions, *sizes, inference, training, reserve])
    header = "algorithm mode kind layers directions input hidden projected dropout packed batch longest steps inference training reserve"
    return header.split(), rows


def solver(count):
    cusolver = loaded("libcusolver")
    handle, jacobi = P(), P()
    cusolver.cusolverDnCreate(ctypes.byref(handle))
    cusolver.cusolverDnCreateGesvdjInfo(ctypes.byref(jacobi))
    matrix, rows = P(torch.zeros(1 << 26, dtype=torch.uint8, device="cuda").data_ptr()), []

    def ask(name, letter, sizes, *arguments, before_last=()):
        numbers = I(-1)
        function = getattr(cusolver, f"cusolverDn{letter}{name}_bufferSize")
        if not function(handle, *arguments, ctypes.byref(numbers), *before_last):
            rows.append([name, letter, *sizes, *[""] * (4 - len(sizes)), numbers.value])

    while len(rows) < count:
        letter, m, n, k = random.choice(LETTERS), drawn(1, 8192), drawn(1, 8192), drawn(1, 8192)
        orthogonal, symmetric = ("or", "sy") if letter in "SD" else ("un", "he")
        ask("geqrf", letter, [m, n], I(m), I(n), matrix, I(m))
        if m >= n >= k:
            ask(f"{orthogonal}gqr", letter, [m, n, k], I(m), I(n), I(k), matrix, I(m), matrix)
        for side, longest in ((0, m), (1, n)):
            if k <= longest:
                shape = [I(side), I(1), I(m), I(n), I(k)]
                ask(f"{orthogonal}mqr", letter, [side, m, n, k], *shape, matrix, I(longest), matrix, matrix, I(m))
        for is_reduced in (0, 1):
            shape = [I(1), I(is_reduced), I(m), I(n), matrix, I(m), matrix, matrix, I(m), matrix, I(n)]
            ask("gesvdj", letter, [is_reduced, m, n], *shape, before_last=[jacobi])
        ask(f"{symmetric}evd", letter, [n], I(1), I(0), I(n), matrix, I(n), matrix)
        ask("sytrf", letter, [n], I(n), matrix, I(n))
    return ["function", "type", "a", "b", "c", "d", "numbers"], rows


if __name__ == "__main__":
    main()
