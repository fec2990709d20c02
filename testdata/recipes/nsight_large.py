#!/usr/bin/env python3
"""Makes a large SQLite file with the tables of `../nsight/calls-2025.sqlite`, by hand: `nsight_large.py OUT KERNELS CALLS ALLOCATIONS RANGES FRAMES`.

Every allocation lies in a named range of its own, and is freed four allocations later; the other ranges and the calls of kernels lie between
them. With FRAMES above 0, each call has a backtrace of so many frames, of 5,000 different ones, as PyTorch's calls have. docs/driver.md has the
memory and time that two of them take: `109000000 40000000 200000 4000000 0` has 10.4 GB, `3000000 2000000 20000 100000 24` 2.4 GB.
"""

import pathlib
import sqlite3
import sys

SHAPE = pathlib.Path(__file__).resolve().parent.parent / "nsight" / "calls-2025.sqlite"
TABLES = [
    "StringIds", "CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_RUNTIME", "NVTX_EVENTS", "CUDA_GPU_MEMORY_USAGE_EVENTS", "CUDA_CALLCHAINS",
    "TARGET_INFO_SESSION_START_TIME", "TARGET_INFO_GPU",
]
PROCESS = 4242 << 24
THREAD = PROCESS | 4243
STACKS = 5000

out, kernels, calls, allocations, ranges, frames = sys.argv[1], *map(int, sys.argv[2:])
pathlib.Path(out).unlink(missing_ok=True)
database = sqlite3.connect(out)
database.executescript("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = -200000")
database.execute("ATTACH ? AS shape", [str(SHAPE)])
for table in TABLES:
    (sql,) = database.execute("SELECT sql FROM shape.sqlite_master WHERE name = ?", [table]).fetchone()
    database.execute(sql)
for table in TABLES[-2:]:
    database.execute(f"INSERT INTO {table} SELECT * FROM shape.{table}")


def fill(table, count, **columns):
    """Adds rows, numbered by `i` from 0."""
    numbers = f"WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n LIMIT {count})"
    if count:
        names = ", ".join(f'"{name}"' for name in columns)
        database.execute(f"{numbers} INSERT INTO main.{table} ({names}) SELECT {', '.join(map(str, columns.values()))} FROM n")


texts = ["cudaMalloc_v3020", "cudaLaunchKernel_v7000", "gemm", "/usr/lib/libcuda.so.1", "/usr/lib/libtorch_cuda.so", "/usr/lib/libcublas.so.13"]
database.executemany("INSERT INTO main.StringIds VALUES (?, ?)", enumerate(texts))
fill("StringIds", STACKS + 100, id="i + 100", value="'void at::native::function_' || i || '<float, (anonymous namespace)::Functor>(int, float*)'")
# An allocation every 1,000 ns in which it lasts for 500.
fill(
    "CUDA_GPU_MEMORY_USAGE_EVENTS", 2 * allocations, start="(i / 2 + 4 * (i % 2)) * 1000 + 100 + i % 2", globalPid=PROCESS, deviceId=0, contextId=1,
    address="140000000000000 + (i / 2 % 16) * 2097152", pc=0, bytes=2 << 20, memKind=2, memoryOperationType="i % 2", correlationId="i",
)
fill(
    "CUPTI_ACTIVITY_KIND_RUNTIME", calls, start="i * 100", end="i * 100 + 90", eventClass=0, globalTid=THREAD, correlationId="i",
    nameId=f"i >= {2 * allocations}", returnValue=0, callchainId="i" if frames else "NULL",
)
fill(
    "CUPTI_ACTIVITY_KIND_KERNEL", kernels, start="i * 100 + 10", end="i * 100 + 80", deviceId=0, contextId=1, streamId=7, correlationId="i",
    globalPid=PROCESS, demangledName=2, shortName=2, mangledName=2, launchType=1, cacheConfig=1, registersPerThread=64, gridX=4096, gridY=1, gridZ=1,
    blockX=256, blockY=1, blockZ=1, staticSharedMemory=0, dynamicSharedMemory=49152, localMemoryPerThread=0, localMemoryTotal=155713536, gridId="i",
    sharedMemoryExecuted=102400, sharedMemoryLimitConfig=0,
)
fill("NVTX_EVENTS", allocations, start="i * 1000", end="i * 1000 + 400", eventType=59, text="'step ' || i", globalTid=THREAD, domainId=0)
fill("NVTX_EVENTS", ranges, start="i * 100 + 50", end="i * 100 + 60", eventType=59, text="'layer ' || (i % 1000)", globalTid=THREAD, domainId=0)
if frames:
    # The function that was called lies innermost, and the outer ones are those of one of the stacks.
    fill(
        "CUDA_CALLCHAINS", calls * frames, id=f"i / {frames}",
        symbol=f"CASE i % {frames} WHEN 0 THEN (i / {frames} >= {2 * allocations}) ELSE 100 + (i / {frames} % {STACKS} + i % {frames}) END",
        module=f"CASE i % {frames} WHEN 0 THEN 3 WHEN 1 THEN 5 ELSE 4 END", unresolved="NULL", originalIP="140000000000000 + i", stackDepth=f"i % {frames}",
    )
database.commit()
