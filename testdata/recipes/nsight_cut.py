#!/usr/bin/env python3
"""Cuts an SQLite file of Nsight Systems to what the reader looks at: `nsight_cut.py WHOLE.sqlite CUT.sqlite`.

Of calls, stacks and texts remain those that an allocation or a named range refers to. Directories of libraries become /usr/lib.
"""

import os
import shutil
import sqlite3
import sys

EVENTS, CALLS, CHAINS = "CUDA_GPU_MEMORY_USAGE_EVENTS", "CUPTI_ACTIVITY_KIND_RUNTIME", "CUDA_CALLCHAINS"
KEPT = {
    EVENTS, CALLS, CHAINS, "CUDA_GPU_MEMORY_POOL_EVENTS", "StringIds", "NVTX_EVENTS", "CUPTI_ACTIVITY_KIND_KERNEL",
    "CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_MEMSET", "CUDA_UM_CPU_PAGE_FAULT_EVENTS", "CUDA_UM_GPU_PAGE_FAULT_EVENTS",
    "TARGET_INFO_SESSION_START_TIME", "TARGET_INFO_GPU", "META_DATA_EXPORT",
}
TEXTS = {CALLS: ["nameId"], CHAINS: ["module", "symbol"], "NVTX_EVENTS": ["textId"], "CUPTI_ACTIVITY_KIND_KERNEL": ["shortName"]}

whole, cut = sys.argv[1:]
shutil.copy(whole, cut)
database = sqlite3.connect(cut)
tables = {name for name, in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
for table in tables - KEPT:
    if not table.startswith("sqlite_"):
        database.execute(f'DROP TABLE "{table}"')
database.execute(f"DELETE FROM {CALLS} WHERE correlationId NOT IN (SELECT ifnull(correlationId, -1) FROM {EVENTS})")
if CHAINS in tables:
    # Some releases number stacks from 1, and in calls from 0.
    used = f"SELECT ifnull(callchainId, -1) FROM {CALLS} UNION SELECT ifnull(callchainId, -1) + 1 FROM {CALLS}"
    database.execute(f"DELETE FROM {CHAINS} WHERE id NOT IN ({used})")
columns = [f"SELECT ifnull({column}, -1) FROM {table}" for table, names in TEXTS.items() if table in tables for column in names]
database.execute(f"DELETE FROM StringIds WHERE id NOT IN (SELECT * FROM ({' UNION '.join(columns)}))")
for number, text in database.execute("SELECT id, value FROM StringIds WHERE value LIKE '/%'").fetchall():
    database.execute("UPDATE StringIds SET value = ? WHERE id = ?", (f"/usr/lib/{os.path.basename(text)}", number))
database.execute("DELETE FROM META_DATA_EXPORT WHERE name NOT LIKE 'EXPORT_PRODUCT%' AND name NOT LIKE 'EXPORT_SCHEMA%'")
database.execute("UPDATE TARGET_INFO_GPU SET uuid = ''")
database.commit()
database.execute("VACUUM")
