#!/usr/bin/env python3
"""The program of `../nsight/2025.sqlite`, on a GPU: `nsight_run.py OUT.pickle` writes the snapshot beside it.

    nsys profile -o real --cuda-memory-usage=true --trace=cuda,nvtx -s none --cpuctxsw=none python nsight_run.py 2025.pickle
    nsys export --type sqlite --output 2025.sqlite real.nsys-rep

Of the file, the tables remain that the reader looks at, and the version of the export; `VACUUM` made it small. Nsight Systems 2025.3, an H100
(driver 580, CUDA 13.0), torch 2.11.
"""

import ctypes
import sys

import torch
from torch.cuda import nvtx

torch.cuda.memory._record_memory_history()
nvtx.range_push("setup")
model = torch.nn.Sequential(torch.nn.Linear(1024, 4096), torch.nn.GELU(), torch.nn.Linear(4096, 1024)).cuda()
optimizer = torch.optim.AdamW(model.parameters())
nvtx.range_pop()
runtime = ctypes.CDLL([row.split()[-1] for row in open("/proc/self/maps") if "libcudart.so" in row][0])
planted = ctypes.c_void_p()
for step in range(3):
    nvtx.range_push(f"step {step}")
    x = torch.randn(512, 1024, pin_memory=True).cuda(non_blocking=True)
    nvtx.range_push("forward")
    loss = model(x).square().mean()
    nvtx.range_pop()
    nvtx.range_push("backward")
    loss.backward()
    nvtx.range_pop()
    optimizer.step()
    optimizer.zero_grad()
    if step == 1:
        assert runtime.cudaMalloc(ctypes.byref(planted), ctypes.c_size_t(100 << 20)) == 0
        runtime.cudaMemset(planted, 0, ctypes.c_size_t(100 << 20))
    nvtx.range_pop()
ordered = ctypes.c_void_p()
assert runtime.cudaMallocAsync(ctypes.byref(ordered), ctypes.c_size_t(96 << 20), ctypes.c_void_p(0)) == 0
runtime.cudaFreeAsync(ordered, ctypes.c_void_p(0))
torch.cuda.synchronize()
managed = ctypes.c_void_p()
assert runtime.cudaMallocManaged(ctypes.byref(managed), ctypes.c_size_t(8 << 20), 1) == 0
runtime.cudaFree(planted)
torch.cuda.memory._dump_snapshot(sys.argv[1])
