#!/usr/bin/env python3
"""Inputs to begin with, for the fuzz targets and for `mutations/`: those of testdata, and small ones made up here.

    python3 fuzz/seeds.py TARGET …   # writes fuzz/found/TARGET/NAME; for every target without an argument

Each function that `TARGETS` names yields names and bytes.
"""

import gzip
import json
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

FUZZ = Path(__file__).resolve().parent
TESTDATA = FUZZ.parent / "testdata"
# What takes longer than this to read slows the fuzzer down more than it shows it.
LARGEST = 200_000


def plain(path):
    """The bytes of a file, without its gzip layer."""
    data = path.read_bytes()
    return gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data


def small(paths):
    for path in sorted(paths):
        data = plain(path)
        if len(data) <= LARGEST:
            yield path.name.removesuffix(".gz"), data


def snapshot():
    yield from small(path for path in (TESTDATA / "layouts").iterdir() if path.suffix != ".md")
    yield from small((TESTDATA / "recordings").glob("*.pickle.gz"))


def profiler():
    yield from small((TESTDATA / "profiler").glob("*.json.gz"))
    event = {"ph": "i", "s": "t", "name": "[memory]", "pid": 1, "tid": 1, "ts": 10.5, "args": {
        "Device Type": 1, "Device Id": 0, "Addr": 4096, "Bytes": 512, "Total Allocated": 512, "Total Reserved": 2097152}}
    freed = {**event, "ts": 30, "args": {**event["args"], "Bytes": -512, "Total Allocated": 0}}
    call = {"ph": "X", "cat": "cpu_op", "name": "aten::empty", "pid": 1, "tid": 1, "ts": 10, "dur": 2, "args": {"External id": 1}}
    yield "small.trace", json.dumps({"schemaVersion": 1, "deviceProperties": [], "traceEvents": [call, event, freed]}).encode()
    yield "small.raw", json.dumps([[10, 0, "0xABC", 512], [20, 2, "0xABC", -512]]).encode()


def messages():
    """The first byte is the length of the pieces that the log is read in."""
    for name, log in small((TESTDATA / "messages").glob("*.log")):
        yield name, b"\x06" + log


def look(index, gpus=1):
    """One sample in a log of `highwater top`."""
    torch = {"device": 0, "allocated_bytes": 1 << 29, "cached_bytes": 1 << 20, "context_bytes": 1 << 28, "libraries_bytes": 5,
             "unexplained_bytes": 0, "peak_allocated_bytes": 1 << 30, "peak_reserved_bytes": 1 << 30, "libraries": ["cuBLAS"], "note": "n"}
    process = {"pid": 7, "kind": "compute", "used_bytes": 1 << 30, "user": "me", "command": "python train.py", "torch": torch,
               "torch_note": None}
    gpu = {"name": "NVIDIA H100", "compute_capability": "9.0",
           "memory": {"total_bytes": 85 << 30, "used_bytes": (index + 1) << 30, "free_bytes": 80 << 30, "reserved_bytes": 1 << 20},
           "bar1": {"total_bytes": 1 << 30, "used_bytes": 1}, "utilization": {"gpu_percent": 5, "memory_percent": 6},
           "temperature_c": 40, "power": {"draw_mw": 1, "limit_mw": 2}, "ecc": {"is_enabled": True, "corrected": 0, "uncorrected": 0},
           "unseen_bytes": 0, "is_lost": False, "notes": ["a note"], "processes": [process]}
    return {"time_us": 1_700_000_000_000_000 + index * 100_000, "driver": {"version": "550.1", "cuda": "12.4"},
            "gpus": [{"index": number, "uuid": f"GPU-{number}", **gpu} for number in range(gpus)]}


def log_of(looks, interval_us=100_000):
    header = {"format": "highwater-log", "version": 1, "interval_us": interval_us}
    return "".join(json.dumps(line) + "\n" for line in [header, *looks]).encode("utf-8", "surrogatepass")


def hwlog():
    yield "one", log_of([look(0)])
    yield "three-of-two", log_of([look(index, gpus=2) for index in range(3)])


def recorder():
    device = {"device": 0, "uuid": "GPU-1", "allocated_bytes": 1 << 20, "reserved_bytes": 2 << 20, "peak_allocated_bytes": 1 << 21,
              "peak_reserved_bytes": 1 << 21, "context_bytes": 1 << 28, "is_distributed": False}
    for name, answer in [("memory", {"version": 1, "devices": [device]}), ("snapshot", {"version": 1, "bytes": 1000}),
                         ("error", {"version": 1, "error": "CUDA is not initialised"})]:
        yield name, json.dumps(answer).encode() + b"\n"


def configs():
    """A configuration of each family, by its `model_type`: those that were measured, and those that no measurement has."""
    found = {}
    for path in sorted((TESTDATA / "estimates").glob("*.jsonl")):
        for line in path.read_text().splitlines():
            config = json.loads(line).get("config")
            if isinstance(config, dict) and "model_type" in config:
                found.setdefault(config["model_type"], config)
    return found


def config():
    for name, value in configs().items():
        yield name, json.dumps(value).encode()


def calculator():
    options = [{}, {"batch": 4, "seq": 128, "checkpointing": True}, {"mode": "generate", "new-tokens": 16}, {"lora-rank": 8},
               {"zero": 3, "world-size": 4}, {"autocast": "bfloat16", "fit": True, "gpu": "h100"}]
    for number, more in enumerate(options):
        yield f"named-{number}", json.dumps({"model": "gpt2", **more}).encode()
    yield "described", json.dumps({"model": {"config": configs()["llama"]}, "batch": 2}).encode()


def text(value):
    return struct.pack("<Q", len(value)) + value


def gguf():
    family = b"llama"
    numbers = {b"embedding_length": 64, b"block_count": 2, b"feed_forward_length": 128, b"attention.head_count": 4, b"context_length": 512}
    entries = [text(b"general.architecture") + struct.pack("<I", 8) + text(family)]
    entries += [text(family + b"." + key) + struct.pack("<II", 4, value) for key, value in numbers.items()]
    entries += [text(b"tokenizer.ggml.tokens") + struct.pack("<IIQ", 9, 8, 3) + text(b"a") + text(b"b") + text(b"c"),
                text(b"an.array.of.arrays") + struct.pack("<IIQ", 9, 9, 1) + struct.pack("<IQ", 0, 2) + b"\1\2"]
    tensors = [text(b"token_embd.weight") + struct.pack("<IQQIQ", 2, 64, 100, 1, 0),
               text(b"output_norm.weight") + struct.pack("<IQIQ", 1, 64, 0, 12800)]
    for version in (2, 3):
        yield f"v{version}", b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(entries)) + b"".join(entries + tensors)


def safetensors():
    tensor = {"dtype": "BF16", "shape": [64, 64], "data_offsets": [0, 8192]}
    header = json.dumps({"__metadata__": {"format": "pt"}, "model.embed_tokens.weight": tensor, "lm_head.weight": {**tensor, "shape": []}})
    yield "small", struct.pack("<Q", len(header)) + header.encode()
    yield "index", json.dumps({"metadata": {"total_size": 8192}, "weight_map": {"lm_head.weight": "model-00001-of-00002.safetensors"}}).encode()


RMM = b"Thread,Time,Action,Pointer,Size,Stream\n" + b"".join(
    b"1,10:00:%02d:000000,%s,0x%x,%d,0x0\n" % (row % 60, b"allocate" if row % 3 else b"free", 0x1000 * (row // 2), 512 * row)
    for row in range(60))


def programs():
    """Request programs, cut at a row, and a log of RMM."""
    for path in sorted((TESTDATA / "allocator" / "programs").glob("*.csv.gz")):
        yield path.name.removesuffix(".csv.gz"), plain(path)[:20_000].rpartition(b"\n")[0]
    yield "rmm", RMM


def requests():
    """The first byte says on which machine the program runs."""
    for number, (name, program) in enumerate(programs()):
        yield name, bytes([number % 32]) + program[:4000].rpartition(b"\n")[0]


def settings():
    for number, conf in enumerate([
            "", "expandable_segments:True", "max_split_size_mb:128,garbage_collection_threshold:0.8",
            "roundup_power2_divisions:[256:1,512:2,1024:4,>:8]", "roundup_power2_divisions:8", "backend:cudaMallocAsync",
            "pinned_use_cuda_host_register:True,pinned_num_register_threads:8", "large_segment_size_mb:40,max_non_split_rounding_mb:64",
            "expandable_segments:True,expandable_segments_reserve:0.5,per_process_memory_fraction:0.9", "throw_on_cudamalloc_oom:true"]):
        yield str(number), conf.encode()


BUDGETS = """[budget]
max_peak_allocated = "8GiB"
max_peak_reserved = "9GiB"
max_peak_requested = 8589934592
max_fragmentation = "10%"
max_growth_per_iteration = "1MiB"
baseline = "last-release.pickle"
tolerance = "2%"
"""


def budgets():
    yield "all", BUDGETS.encode()
    yield "one", b"[budget]\nmax_peak_reserved='1 GiB'\n"


def viewer():
    """A host, a query and a range, a line each."""
    for number, lines in enumerate([
            ("127.0.0.1:8123", "device=0&conf=expandable_segments%3ATrue&capacity=17179869184", "bytes=0-65535"),
            ("localhost:8123", "name=run.pickle", "bytes=10-20"), ("evil.example:8123", "conf=a&conf=b+c", "bytes=20-10")]):
        yield str(number), "\n".join(lines).encode()


def elf():
    """A library of CUDA's made here, and one that wants a function of it by its version."""
    with tempfile.TemporaryDirectory() as folder:
        def build(name, code, *options):
            Path(folder, "a.c").write_text(code)
            subprocess.run(["cc", "-shared", "-fPIC", "-nostdlib", "-s", "-Wl,--build-id=none,-z,noseparate-code,-z,norelro", "-o", name, "a.c",
                            *options], cwd=folder, check=True)
            return Path(folder, name).read_bytes()
        Path(folder, "map").write_text("libcudart.so.12 { global: cudaMalloc; };\n")
        yield "cudart", build("libcudart.so.12", "int cudaMalloc(void) { return 0; }", "-Wl,-soname,libcudart.so.12,--version-script=map")
        yield "torch", build("libtorch.so", "int cudaMalloc(void), cuInit(void); int torch(void) { return cudaMalloc() + cuInit(); }",
                             "-Wl,-soname,libtorch.so", "./libcudart.so.12")


TARGETS = {"analysis": snapshot, "budgets": budgets, "calculator": calculator, "config": config, "elf": elf, "gguf": gguf,
           "hwlog": hwlog, "messages": messages, "profiler": profiler, "recorder": recorder, "requests": requests,
           "safetensors": safetensors, "settings": settings, "snapshot": snapshot, "viewer": viewer}


def main():
    for target in sys.argv[1:] or TARGETS:
        folder = FUZZ / "found" / target
        folder.mkdir(parents=True, exist_ok=True)
        for name, data in TARGETS[target]():
            (folder / name).write_bytes(data)


if __name__ == "__main__":
    main()
