#!/usr/bin/env python3
"""Takes stacks, times and texts out of a snapshot: strip_stacks.py IN.pickle.gz OUT.pickle.gz"""
import gzip
import pickle
import sys

with gzip.open(sys.argv[1]) as file:
    snapshot = pickle.load(file)  # noqa: S301 (our own recording)
for trace in snapshot["device_traces"]:
    for entry in trace:
        entry["frames"] = []
        for key in ("time_us", "compile_context", "user_metadata"):
            entry.pop(key, None)
for segment in snapshot["segments"]:
    segment["frames"] = []
    for block in segment["blocks"]:
        block["frames"] = []
with open(sys.argv[2], "wb") as file:
    file.write(gzip.compress(pickle.dumps(snapshot), 9, mtime=0))
