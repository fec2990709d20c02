"""Compares forecasts of `highwater estimate --serve` with the logs of engines.

Usage: python3 benches/serving.py CASES.jsonl

Every row is printed as asked, or as left out with the field that is missing. A row is asked in two ways: the whole forecast, where the
log's cache is compared; and the arithmetic behind the budget, where the log's cache is given and blocks or tokens are compared.
"""

from __future__ import annotations

import json
import re
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
GIB = 1 << 30

#: Names of GPUs in logs, and how highwater calls them. Others are asked by the memory that they print.
GPUS = [
    ("h100 nvl", "h100-nvl"),
    ("h100", "h100"), ("a100 40", "a100-40"), ("a100 80", "a100"), ("b200", "b200"), ("h200", "h200"), ("rtx 3090", "rtx3090"),
    ("rtx 4090", "rtx4090"), ("rtx 5090", "rtx5090"), ("rtx 4060", "rtx4060"), ("t4", "t4"), ("l40s", "l40s"), ("l4", "l4"),
    ("a30", "a30"), ("a6000", "a6000"), ("rtx 4080", "rtx4080"), ("rtx pro 6000", "rtxpro6000"), ("gb10", "gb10"),
]
FLAGS = [
    ("gpu_memory_utilization", "gpu-memory-utilization"), ("max_num_seqs", "max-num-seqs"), ("max_num_batched_tokens", "max-num-batched-tokens"),
    ("max_model_len", "max-model-len"), ("block_size", "block-size"), ("tensor_parallel", "tensor-parallel-size"),
    ("pipeline_parallel", "pipeline-parallel-size"),
]
QUANTISATIONS: list[tuple[str, dict[str, Any]]] = [
    ("w8a8", {"quant_method": "compressed-tensors", "config_groups": {"group_0": {"targets": ["Linear"], "weights": {"num_bits": 8, "type": "int", "strategy": "channel"}}}, "ignore": ["lm_head"]}),
    ("fp8 dynamic", {"quant_method": "compressed-tensors", "config_groups": {"group_0": {"targets": ["Linear"], "weights": {"num_bits": 8, "type": "float", "strategy": "channel"}}}, "ignore": ["lm_head"]}),
    ("fp8", {"quant_method": "fp8", "weight_block_size": [128, 128], "modules_to_not_convert": ["lm_head"]}),
    ("awq", {"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True}),
    ("bitsandbytes", {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": "nf4", "bnb_4bit_use_double_quant": True}),
    ("mxfp4", {}),
    ("auto_round", {"quant_method": "auto-round", "bits": 4, "group_size": 128, "sym": True}),
    ("compressed-tensors int4", {"quant_method": "compressed-tensors", "config_groups": {"group_0": {"targets": ["Linear"], "weights": {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 32}}}, "ignore": ["re:.*self_attn.*", "re:.*shared_experts.*", "re:.*mlp\\.(gate|up|gate_up|down)_proj.*", "lm_head"]}),
]
#: Flags, environment, release and quantisation that the source of a row prints and the row leaves out.
SOURCES: dict[str, Any] = json.loads((HERE / "serving_sources.json").read_text())["rows"]
#: The sampler's bytes for each row and entry of the vocabulary, as the program has them: `crates/serve/src/vllm/profile.rs`.
SAMPLER = 38.4
REFUSED = ("refused", "no available", "out of memory", "could not")


def model_of(row: dict[str, Any]) -> dict[str, Any] | None:
    """The shape of the row's model."""
    name = row.get("model", "").lower().replace(" ", "-")
    for pattern, shape in json.loads((HERE / "serving_models.json").read_text())["models"]:
        if re.search(pattern, name):
            shape = dict(shape)
            vision = shape.pop("vision", None)
            if vision is not None:
                shape["vision_config"] = vision
            return shape
    return None


def question(row: dict[str, Any], budget: bool, edge: int = 0) -> tuple[dict[str, Any] | None, str]:
    """The question of a row, or the field that is missing."""
    engine, note = row["engine"], row.get("note", "")
    shape = model_of(row)
    if engine not in ("vllm", "sglang") and not engine.startswith("llama.cpp"):
        return None, f"engine: {engine}"
    if shape is None:
        return None, "model: no public configuration" if row.get("model") else "model"
    flags: dict[str, str] = {}
    if engine.startswith("llama.cpp"):
        if budget:
            return None, "budget: there is none"
        if "max_model_len" not in row:
            return None, "max_model_len"
        extra = row.get("extra") or {}
        kinds = row.get("kv_dtype", "f16").replace("K ", "").replace("V ", "").split(", ")
        flags = {"ctx-size": str(row["max_model_len"]), "cache-type-k": kinds[0], "cache-type-v": kinds[-1]}
        if extra.get("n_ubatch"):
            flags["ubatch-size"] = str(extra["n_ubatch"])
        if extra.get("flash_attn") is not None:
            flags["flash-attn"] = str(extra["flash_attn"])
        serve = "llama.cpp@ik" if "ik" in engine else "llama.cpp"
        return {"name": row["model"], "config": shape, "serve": serve, "gpu": "1000GiB", "flags": flags}, ""
    found = re.findall(r"\d+\.\d+(?:\.\d+)?", row.get("version", ""))
    if not found:
        return None, "version"
    serve = f"{engine}@{found[-1] if '-' in row['version'].split('(')[0] else found[0]}"
    if engine == "vllm":
        serve += "+v0" if "V0" in row["version"] else "+v1"
    gpu = next((key for name, key in GPUS if name in row.get("gpu", "").lower()), None)
    total = row.get("total_gpu_gib")
    if "D" in row.get("gpu", "").split():
        gpu = None
    if total:
        flags["gpu-memory"] = str(round(total * GIB))
    if not budget and gpu is None and not total:
        return None, "gpu: its memory is not known"
    names = FLAGS if engine == "vllm" else [("mem_fraction_static", "mem-fraction-static"), ("max_model_len", "context-length"), ("tensor_parallel", "tp-size")]
    flags |= {flag: str(row[field]) for field, flag in names if row.get(field) is not None}
    if row.get("data_parallel") and engine == "sglang":
        flags |= {"dp-size": str(row["data_parallel"]), "enable-dp-attention": ""}
    if row.get("enforce_eager") and engine == "vllm":
        flags["enforce-eager"] = ""
    if row.get("kv_dtype"):
        flags["kv-cache-dtype"] = row["kv_dtype"]
    if (row.get("extra") or {}).get("decode_context_parallel"):
        flags["decode-context-parallel-size"] = str(row["extra"]["decode_context_parallel"])
    source = SOURCES.get(row["id"], {})
    flags |= source.get("flags", {})
    serve = source.get("serve", serve)
    shape |= source.get("config", {})
    quantisation = row.get("quantization", "")
    if quantisation and "quantization_config" not in shape:
        known = next((own for name, own in QUANTISATIONS if name in quantisation), None)
        if known is None and not budget:
            return None, f"quantization: {quantisation} without its list of modules"
        if known:
            shape["quantization_config"] = known
    if budget:
        if engine != "vllm" or row.get("kv_cache_gib", 0) <= 0:
            return None, "kv_cache_gib"
        # The log prints the cache in hundredths of a GiB.
        flags["kv-cache-memory-bytes"] = str(round((row["kv_cache_gib"] + edge * 0.005) * GIB))
    elif engine == "vllm" and "gpu_memory_utilization" not in row and not any(word in row["outcome"] for word in REFUSED):
        return None, "gpu_memory_utilization"
    elif re.search(r"main|dev", row["version"]):
        return None, "version: a build between releases"
    elif "cannot be right" in note:
        return None, "gpu_memory_utilization: the row's own sum contradicts it"
    elif "LoRA" in note and "max-lora-rank" not in flags:
        return None, "lora rank: neither the row nor its source has it"
    elif engine == "sglang" and "AITER" in note:
        return None, "the workspace of AITER"
    return {"name": row.get("model", ""), "config": shape, "serve": serve, "gpu": gpu or f"{total or 1000}GiB", "flags": flags, "environment": source.get("environment", {})}, ""


def left_out_versions(rows: list[tuple[str, float, float, float]]) -> None:
    """Fits the sampler's bytes without each release, and forecasts that release with them.

    A row is the release, rows times entries of the sampler, the peak that is not the sampler's, and the printed peak, in bytes.
    """
    print("\nthe sampler's bytes without a release, and its peaks forecast with them:")
    for version in sorted({row[0] for row in rows}):
        others = [(printed - rest) / entries for other, entries, rest, printed in rows if other != version]
        fitted = statistics.median(others)
        errors = [rest + fitted * entries - printed for other, entries, rest, printed in rows if other == version]
        worst = max(map(abs, errors)) / GIB
        print(f"  {version:8} {len(errors)} rows, {fitted:.2f} bytes of {len(others)} others, off by {worst:.3f} GiB at most")


def main() -> None:
    """Asks every row, and prints the account."""
    rows = [json.loads(line) for line in Path(sys.argv[1]).read_text().splitlines() if line.strip()]
    # The whole forecast, then the least and the most that the printed budget may be.
    asked = [(row, edge, *question(row, edge != 0, edge)) for row in rows for edge in (0, -1, 1)]
    lines = "".join(json.dumps(one) + "\n" for _, _, one, _ in asked if one)
    program = ["cargo", "run", "-q", "--locked", "-p", "highwater-serve", "--example", "ask"]
    out = subprocess.run(program, input=lines, capture_output=True, text=True, check=True, cwd=HERE.parent).stdout
    answers = iter(map(json.loads, out.splitlines()))
    caches: list[tuple[float, float]] = []
    refusals, exact, used = [0, 0], [0, 0], set()
    samplers: list[tuple[str, float, float, float]] = []
    least = 0
    for row, edge, one, missing in asked:
        label = f"{row['id']} {'blocks' if edge else 'whole '} {row.get('model', '')[:34]:34} {row.get('version', '')[:12]:12}"
        if one is None:
            if not edge:
                print(f"{label} left out: {missing}")
            continue
        answer = next(answers)
        if "error" in answer:
            print(f"{label} error: {answer['error']}")
            continue
        is_refused = any(word in row["outcome"] for word in REFUSED)
        by = re.match(r"sampler: (\d+) sequences × (\d+) entries", answer["ranks"][-1]["activation_by"])
        release = re.search(r"\d+\.(\d+)", one["serve"])
        if not edge and by and row.get("activation_peak_gib") and release and int(release[1]) < 17:
            entries = int(by[1]) * int(by[2])
            rest = answer["ranks"][-1]["activation_peak_bytes"] - SAMPLER * entries
            samplers.append((release[0], entries, rest, row["activation_peak_gib"] * GIB))
        if edge:
            printed = row.get("gpu_blocks") or row.get("kv_tokens")
            own = answer["blocks"] if row.get("gpu_blocks") else answer["tokens"]
            if not printed or is_refused:
                continue
            if edge < 0:
                least = own
                continue
            equal = least <= printed <= own
            exact[0] += equal
            exact[1] += 1
            used.add(row["id"])
            print(f"{label} {least} to {own} printed {printed} {'equal' if equal else 'DIFFERS'}")
            continue
        used.add(row["id"])
        terms = " ".join(f"{name} {answer['ranks'][-1][name + '_bytes'] / GIB:.2f}/{row.get(field, '?')}" for name, field in (("weights", "weights_gib"), ("activation_peak", "activation_peak_gib"), ("non_torch", "non_torch_gib")))
        if is_refused:
            refusals[0] += not answer["starts"]
            refusals[1] += 1
            print(f"{label} {'refused' if not answer['starts'] else 'STARTS'}; log: {row['outcome'][:40]}; {terms}")
            continue
        if row.get("kv_cache_gib") is None:
            own, printed = answer["blocks"] or 0, row.get("gpu_blocks")
            if printed:
                caches.append((abs(own - printed) / printed, abs(own - printed) / printed * answer["kv_cache_bytes"] / GIB))
                print(f"{label} {own} blocks, printed {printed}, {100 * (own / printed - 1):+.2f} %; {terms}")
            continue
        own, printed = answer["kv_cache_bytes"] / GIB, row["kv_cache_gib"]
        caches.append((abs(own - printed) / abs(printed), abs(own - printed)))
        mark = "" if caches[-1][0] <= 0.02 else " MISS"
        print(f"{label} {own:.3f} GiB, printed {printed}, {100 * (own / printed - 1):+.2f} %{mark}; {terms}")
    within = sum(share <= 0.02 for share, _ in caches)
    print(f"\n{len(used)} of {len(rows)} rows asked; {within} of {len(caches)} caches within 2 %, median {statistics.median(gib for _, gib in caches):.3f} GiB;")
    print(f"{exact[0]} of {exact[1]} equal where the budget is given; {refusals[0]} of {refusals[1]} refusals predicted")
    left_out_versions(samplers)


main()
