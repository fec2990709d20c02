#!/usr/bin/env python3
"""Programs whose memory on the card is known, for the driver's recording: `whole_card.py NAME OUT`, on a GPU.

It writes OUT, the recording, and OUT.planted.json: each allocation that the program itself made beside PyTorch, as its library, its bytes and
its line. Each mark has NVML's figure beside it, in the recording. NAMES has the programs of `../whole_card`.
"""

import ctypes
import json
import os
import sys
import time

import highwater
import torch
from highwater import _driver

NAMES = ["plain", "streams", "cudnn", "graphs", "cupy", "jax", "extension", "pinned", "pool", "nccl", "nccl_ranks", "expandable"]

name, out = sys.argv[1], sys.argv[2]
planted = []


def line():
    """The caller's line, which is that of an allocation."""
    return sys._getframe(1).f_lineno


def runtime():
    paths = [row.split()[-1] for row in open("/proc/self/maps") if "libcudart.so" in row]
    return ctypes.CDLL(paths[0])


def cuda_malloc(rt, size):
    pointer = ctypes.c_void_p()
    code, at = rt.cudaMalloc(ctypes.byref(pointer), ctypes.c_size_t(size)), line()
    assert code == 0
    planted.append(["ctypes", size, at])
    return pointer


def mark(what):
    torch.cuda.synchronize()
    _driver.mark(what)


def train(steps=4, model=None, data=None):
    model = model or torch.nn.Sequential(torch.nn.Linear(1024, 4096), torch.nn.GELU(), torch.nn.Linear(4096, 1024)).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    for step in range(steps):
        x = data if data is not None else torch.randn(512, 1024, device="cuda")
        model(x).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        highwater.step()
        mark(f"step {step}")


def plain():
    train()


def streams():
    a = torch.randn(2048, 2048, device="cuda")
    for number in range(4):
        with torch.cuda.stream(torch.cuda.Stream()):
            a @ a
        mark(f"stream {number}")


def cudnn():
    torch.backends.cudnn.benchmark = True
    conv = torch.nn.Sequential(torch.nn.Conv2d(64, 128, 3, padding=1), torch.nn.ReLU(), torch.nn.Conv2d(128, 64, 3)).cuda()
    train(3, conv, torch.randn(8, 64, 64, 64, device="cuda"))


def graphs():
    model = torch.nn.Linear(1024, 1024).cuda()
    x = torch.randn(512, 1024, device="cuda")
    side = torch.cuda.Stream()
    with torch.no_grad(), torch.cuda.stream(side):
        model(x)
    mark("warm")
    kept = []
    for number in range(3):
        graph = torch.cuda.CUDAGraph()
        with torch.no_grad(), torch.cuda.graph(graph):
            for _ in range(50):
                y = model(x)
        graph.replay()
        kept.append((graph, y))
        mark(f"graph {number}")


def cupy():
    import cupy
    torch.mm(torch.randn(512, 512, device="cuda"), torch.randn(512, 512, device="cuda"))
    a, at = cupy.zeros(300 << 20, dtype=cupy.uint8), line()
    planted.append(["CuPy", 300 << 20, at])
    mark("cupy")
    b = cupy.random.rand(2000, 2000) @ cupy.random.rand(2000, 2000)
    mark("product")


def jax():
    os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
    import jax, jax.numpy as jnp
    torch.mm(torch.randn(512, 512, device="cuda"), torch.randn(512, 512, device="cuda"))
    a = jnp.ones((8192, 8192)); a.block_until_ready()
    mark("ones")
    (a @ a).block_until_ready()
    mark("product")


def extension():
    rt = runtime()
    x = torch.randn(1024, 1024, device="cuda")
    kept = [cuda_malloc(rt, 200 << 20)]
    mark("200 MiB")
    kept.append(cuda_malloc(rt, 3_000_000))
    for _ in range(50):
        kept.append(cuda_malloc(rt, 100_000))
    mark("small ones")
    rt.cudaFree(kept[0])
    mark("freed")


def pinned():
    data = torch.utils.data.TensorDataset(torch.randn(2048, 1 << 14))
    loader = torch.utils.data.DataLoader(data, batch_size=256, pin_memory=True, num_workers=2)
    for (batch,) in loader:
        batch.cuda(non_blocking=True).sum()
    mark("loaded")
    big = torch.empty(1 << 30, dtype=torch.uint8, pin_memory=True)
    mark("pinned")


def pool():
    cu = ctypes.CDLL("libcuda.so.1")
    torch.zeros(1, device="cuda")
    class Location(ctypes.Structure): _fields_ = [("type", ctypes.c_int), ("id", ctypes.c_int)]
    class Prop(ctypes.Structure): _fields_ = [("type", ctypes.c_int), ("handles", ctypes.c_int), ("location", Location), ("meta", ctypes.c_void_p), ("flags", ctypes.c_ubyte * 8)]
    prop = Prop(); prop.type = 1; prop.location.type = 1
    base = ctypes.c_uint64(); size = 64 << 20
    assert cu.cuMemAddressReserve(ctypes.byref(base), ctypes.c_size_t(16 * size), ctypes.c_size_t(0), ctypes.c_uint64(0), ctypes.c_uint64(0)) == 0
    handles = []
    for number in range(8):
        handle = ctypes.c_uint64()
        code, at = cu.cuMemCreate(ctypes.byref(handle), ctypes.c_size_t(size), ctypes.byref(prop), ctypes.c_uint64(0)), line()
        assert code == 0
        planted.append(["ctypes", size, at])
        assert cu.cuMemMap(ctypes.c_uint64(base.value + number * size), ctypes.c_size_t(size), ctypes.c_size_t(0), handle, ctypes.c_uint64(0)) == 0
        if number % 2: assert cu.cuMemRelease(handle) == 0
        handles.append(handle)
    mark("mapped")
    for number in range(4):
        assert cu.cuMemUnmap(ctypes.c_uint64(base.value + number * size), ctypes.c_size_t(size)) == 0
        if not number % 2: assert cu.cuMemRelease(handles[number]) == 0
    mark("half unmapped")
    rt = runtime(); pointer = ctypes.c_void_p()
    assert rt.cudaMallocAsync(ctypes.byref(pointer), ctypes.c_size_t(96 << 20), ctypes.c_void_p(0)) == 0
    mark("stream-ordered")
    assert rt.cudaFreeAsync(pointer, ctypes.c_void_p(0)) == 0
    mark("freed in order")


def nccl():
    import torch.distributed as dist
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29555", RANK="0", WORLD_SIZE="1")
    x = torch.zeros(1 << 20, device="cuda")
    dist.init_process_group("nccl")
    dist.all_reduce(x)
    mark("first group")
    other = dist.new_group([0])
    dist.all_reduce(x, group=other)
    mark("second group")


def expandable():
    train()


# The recordings name the lines above: new programs go below.


def nccl_ranks():
    """Two ranks: `torchrun --nproc-per-node 2 whole_card.py nccl_ranks OUT%r`, where %r is the rank."""
    import torch.distributed as dist
    x = torch.ones(1 << 20, device="cuda")
    mark("context")
    dist.init_process_group("nccl", device_id=torch.device("cuda", torch.cuda.current_device()))
    dist.all_reduce(x)
    mark("first group")
    other = dist.new_group([0, 1])
    dist.all_reduce(x, group=other)
    mark("second group")
    dist.all_to_all_single(torch.empty_like(x), x)
    mark("all to all")
    dist.destroy_process_group()


def million():
    rt = runtime()
    torch.zeros(1, device="cuda")
    pointer = ctypes.c_void_p()
    begun = time.perf_counter()
    for number in range(1_000_000):
        rt.cudaMalloc(ctypes.byref(pointer), ctypes.c_size_t(4096 + number % 7 * 1000))
        rt.cudaFree(pointer)
    print("a million allocations and frees", time.perf_counter() - begun, "s")
    kept = cuda_malloc(rt, 8 << 20)
    mark("end")


def overhead():
    layer = torch.nn.TransformerEncoderLayer(2048, 16, 8192, batch_first=True, device="cuda", dtype=torch.bfloat16)
    model = torch.nn.TransformerEncoder(layer, 8).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    x = torch.randn(8, 1024, 2048, device="cuda", dtype=torch.bfloat16)
    times = []
    for step in range(60):
        torch.cuda.synchronize(); begun = time.perf_counter()
        model(x).square().mean().backward(); optimizer.step(); optimizer.zero_grad(); highwater.step()
        torch.cuda.synchronize(); times.append(time.perf_counter() - begun)
    times = sorted(times[20:])
    print("step ms, median", times[len(times) // 2] * 1e3, "least", times[0] * 1e3)
    y = torch.randn(512, 1024, device="cuda")
    launches = {"cuLaunchKernel": lambda: y.add_(1), "cuLaunchKernelEx": launch_of_triton(y)}
    for call, launch in launches.items():
        launch()
        for _ in range(3):
            torch.cuda.synchronize(); begun = time.perf_counter()
            for _ in range(5000): launch()
            torch.cuda.synchronize(); print(call, "us", (time.perf_counter() - begun) / 5000 * 1e6)


def launch_of_triton(y):
    """Launches a small kernel of Triton's, by the call that the recorder looks at."""
    import triton
    import triton.language as tl

    @triton.jit
    def add(at, SIZE: tl.constexpr):
        places = at + tl.arange(0, SIZE)
        tl.store(places, tl.load(places) + 1)

    return lambda: add[(1,)](y, SIZE=1024)


def profiled():
    mark("before")
    from torch.profiler import profile, ProfilerActivity
    x = torch.randn(1024, 1024, device="cuda")
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as prof:
        x @ x; torch.cuda.synchronize()
    print("kernels seen by the profiler", sum(e.device_type == torch.autograd.DeviceType.CUDA for e in prof.events()))


def nccl_messages():
    """Two ranks, as for `nccl_ranks`: a message comes before the first collective. With NCCL_ALGO=Tree, or another, its algorithm is used."""
    import torch.distributed as dist
    x = torch.ones(1 << 20, device="cuda")
    mark("context")
    dist.init_process_group("nccl", device_id=torch.device("cuda", torch.cuda.current_device()))
    mark("group")
    if dist.get_rank() == 0:
        dist.send(x, 1)
    else:
        dist.recv(x, 0)
    mark("message")
    dist.all_reduce(x)
    mark("collective")
    dist.broadcast(x, 0)
    mark("broadcast")
    other = dist.new_group([0, 1])
    dist.all_reduce(x, group=other)
    mark("second group")
    dist.destroy_process_group()


def second_device():
    """Two GPUs, one process: kernels of Triton's that have a first launch on each."""
    for device in [0, 1, 0]:
        with torch.cuda.device(device):
            y = torch.zeros(1024, device="cuda")
            mark(f"device {device}")
            launch_of_triton(y)()
            mark(f"launched on {device}")


def transformer():
    layer = torch.nn.TransformerEncoderLayer(512, 8, 2048, batch_first=True, device="cuda", dtype=torch.bfloat16)
    train(3, torch.nn.TransformerEncoder(layer, 4), torch.randn(8, 512, 512, device="cuda", dtype=torch.bfloat16))


COMPILED = """
#include <cstddef>
extern "C" int cudaMalloc(void **, size_t);
int64_t planted_allocation(int64_t size) {
    void *pointer = nullptr;
    return cudaMalloc(&pointer, size) ? 0 : reinterpret_cast<int64_t>(pointer);
}
"""


def compiled_extension():
    """An extension of C++ that calls the runtime itself."""
    from torch.utils.cpp_extension import load_inline
    x = torch.randn(1024, 1024, device="cuda")
    cudart = next(row.split()[-1] for row in open("/proc/self/maps") if "libcudart.so" in row)
    built = load_inline("planted", COMPILED, functions=["planted_allocation"], extra_ldflags=[cudart])
    for size in [200 << 20, 3_000_000]:
        code, at = built.planted_allocation(size), line()
        assert code != 0
        planted.append(["planted.so", size, at])
        mark(f"{size} bytes")


def ddp_ranks():
    """Two ranks that train a model together, as for `nccl_ranks`; the second has a cuBLAS handle on another stream besides."""
    import torch.distributed as dist
    dist.init_process_group("nccl", device_id=torch.device("cuda", torch.cuda.current_device()))
    layers = [torch.nn.Linear(1024, 4096), torch.nn.GELU(), torch.nn.Linear(4096, 1024)]
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(*layers).cuda())
    train(3, model)
    if dist.get_rank() == 1:
        with torch.cuda.stream(torch.cuda.Stream()):
            torch.randn(2048, 2048, device="cuda") @ torch.randn(2048, 2048, device="cuda")
        mark("another handle")
    dist.destroy_process_group()


def forked():
    """A child of a fork computes nothing; its parent goes on."""
    x = torch.randn(1024, 1024, device="cuda")
    mark("before")
    child = os.fork()
    if child == 0:
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    y = torch.randn(4096, 4096, device="cuda")
    mark("after")


if "LOCAL_RANK" in os.environ:
    # As scripts of several ranks do first: it makes the context, before the recording begins.
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    out = out.replace("%r", os.environ["RANK"])
mode = os.environ.get("MODE", "driver")
if mode == "none":
    globals()[name]()
else:
    with highwater.record(out, driver=mode == "driver", max_entries=20000):
        globals()[name]()
        mark("end")
if planted:
    json.dump(planted, open(out + ".planted.json", "w"))
