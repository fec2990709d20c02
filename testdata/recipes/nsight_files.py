#!/usr/bin/env python3
"""Makes ../nsight, by hand: SQLite files in three shapes that Nsight Systems exports, from "SQLite Export Schema Reference" of its documentation.

No profiler wrote them. Each has one process that allocates, frees and keeps memory, and what it keeps is the same in all.
"""

import pathlib
import sqlite3

OUT = pathlib.Path(__file__).resolve().parent.parent / "nsight"
MIB = 1 << 20
PROCESS = 4242 << 24
THREAD = PROCESS | 4243
EVENTS = "CUDA_GPU_MEMORY_USAGE_EVENTS"

# Start, address, bytes, kind of memory (1 pinned, 2 device, 4 managed), operation (1 frees), correlation.
ROWS = [
    (1_000_000, 0x7F0000000000, 64 * MIB, 2, 0, 1),
    (2_000_000, 0x7F0010000000, 256 * MIB, 2, 0, 2),
    (3_000_000, 0x7E0000000000, 128 * MIB, 1, 0, 3),
    (4_000_000, 0x7F0010000000, 256 * MIB, 2, 1, 4),
    (5_000_000, 0x7F0020000000, 32 * MIB, 4, 0, 5),
]

COLUMNS = {
    "2021": "start INT NOT NULL, globalPid INT NOT NULL, deviceId INT NOT NULL, contextId INT NOT NULL, address INT NOT NULL, "
    "bytes INT NOT NULL, memKind INT NOT NULL, memoryOperationType INT NOT NULL, name TEXT NOT NULL, correlationId INT NOT NULL",
    "2022": "start INTEGER NOT NULL, globalPid INTEGER, deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL, address INTEGER, "
    "pc INTEGER, bytes INTEGER, memKind INTEGER, memoryOperationType INTEGER, name TEXT, correlationId INTEGER, streamId INTEGER, "
    "localMemoryPoolAddress INTEGER, localMemoryPoolReleaseThreshold INTEGER, localMemoryPoolSize INTEGER, "
    "localMemoryPoolUtilizedSize INTEGER, importedMemoryPoolAddress INTEGER, importedMemoryPoolProcessId INTEGER",
    "2024": "globalPid INTEGER, start INTEGER NOT NULL, deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL, bytes INTEGER, "
    "address INTEGER, memKind INTEGER, memoryOperationType INTEGER, correlationId INTEGER, localMemoryPoolAddress INTEGER, "
    "localMemoryPoolSize INTEGER, localMemoryPoolUtilizedSize INTEGER",
}


def make(release):
    path = OUT / f"{release}.sqlite"
    path.unlink(missing_ok=True)
    database = sqlite3.connect(path)
    database.execute(f"CREATE TABLE {EVENTS} ({COLUMNS[release]})")
    for start, address, size, kind, operation, correlation in ROWS:
        row = {
            "start": start, "globalPid": PROCESS, "deviceId": 0, "contextId": 1, "address": address, "bytes": size, "memKind": kind,
            "memoryOperationType": operation, "correlationId": correlation,
        }
        if release == "2021":
            row["name"] = ""
        names = ", ".join(row)
        database.execute(f"INSERT INTO {EVENTS} ({names}) VALUES ({', '.join('?' * len(row))})", list(row.values()))
    if release != "2021":
        database.execute("CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL)")
        texts = ["/usr/lib/libcuda.so.1", "cuMemAlloc_v2", "/opt/lib/libcublas.so.12", "cublasCreate_v2", "cudaMalloc_v3020"]
        database.executemany("INSERT INTO StringIds VALUES (?, ?)", enumerate(texts))
        database.execute(
            "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER NOT NULL, end INTEGER NOT NULL, eventClass INTEGER NOT NULL, "
            "globalTid INTEGER, correlationId INTEGER, nameId INTEGER NOT NULL, returnValue INTEGER NOT NULL, callchainId INTEGER)"
        )
        calls = [(start - 9, start + 9, 0, THREAD, row[5], 4, 0, 7) for start, *_ in ROWS for row in ROWS if row[0] == start]
        database.executemany("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?, ?, ?, ?, ?, ?, ?, ?)", calls)
        database.execute(
            "CREATE TABLE CUDA_CALLCHAINS (id INTEGER NOT NULL, symbol INTEGER, module INTEGER, unresolved INTEGER, "
            "originalIP INTEGER, stackDepth INTEGER NOT NULL, PRIMARY KEY (id, stackDepth))"
        )
        database.executemany("INSERT INTO CUDA_CALLCHAINS VALUES (7, ?, ?, 0, 0, ?)", [(1, 0, 0), (3, 2, 1)])
    if release == "2024":
        database.execute("CREATE TABLE TARGET_INFO_SESSION_START_TIME (utcEpochNs INTEGER, utcTime TEXT, localTime TEXT)")
        database.execute("INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES (1700000000000000000, '', '')")
        database.execute("CREATE TABLE TARGET_INFO_GPU (vmId INTEGER, id INTEGER NOT NULL, name TEXT, totalMemory INTEGER, cuDevice INTEGER)")
        database.execute("INSERT INTO TARGET_INFO_GPU VALUES (1, 0, 'a card', ?, 5)", [80 << 30])
    database.commit()
    database.execute("VACUUM")
    database.close()


if __name__ == "__main__":
    OUT.mkdir(exist_ok=True)
    for release in COLUMNS:
        make(release)
