"""Files that describe models, for `highwater estimate`."""

import json
import struct

import change
import seeds

SIZES = [1, 2, 4, 8, 14, 28, 64, 128, 896, 1024, 4096, 65536, 10**6, 2**31, 2**40]
SETUPS = [[], ["--batch", 8, "--seq", 2048], ["--mode", "generate"], ["--checkpointing"], ["--optimizer", "adafactor"],
          ["--batch", 2**64 - 1], ["--seq", 2**32, "--batch", 2**32], ["--lora-rank", 8], ["--mode", "forward", "--attention", "eager"],
          ["--batch", 0], ["--autocast", "bfloat16"]]
# An estimate takes memory by the model's layers, of which there may be 4,096, not by the file: a GiB at most.
LAYERS_BYTES = 33 << 20


def config(families, rng):
    """A configuration of which some numbers are others: most are estimated."""
    found = dict(rng.choice(families))
    for _ in range(rng.choice([0, 1, 1, 2])):
        key = rng.choice(list(found))
        of_its_kind = type(found[key]) is int and rng.random() < 0.9
        found[key] = rng.choice(SIZES if of_its_kind else change.NUMBERS + change.HOSTILE + [10**9, 10**12])
    data = change.as_json(found)
    return change.flip(data, rng) if rng.random() < 0.1 else data


def safetensors(rng):
    """A header with tensors, some of them with impossible shapes."""
    shapes = [[896, 896], [64], [], [0], [2**40, 2**40], [-1, 4], "x", [1.5]]
    tensors = {f"model.layers.{layer}.self_attn.q_proj.weight": {
        "dtype": rng.choice(["F32", "BF16", "BF16", "X", 7]), "shape": rng.choice(shapes[: rng.choice([3, 3, 8])]),
        "data_offsets": rng.choice([[0, 1605632], [5, 1], [2**63, 2**64 - 1], None])} for layer in range(rng.choice([1, 3, 40]))}
    header = json.dumps({"__metadata__": rng.choice([{"format": "pt"}, {}, [], "\x1b[31m"]), **tensors}).encode()
    length = rng.choice([len(header)] * 5 + [len(header) + 1, 0, 2**63, 2**64 - 1, 100_000_000])
    return struct.pack("<Q", length) + header + b"\0" * rng.choice([0, 100])


def gguf(rng):
    """A header with metadata of every type, or with changed bytes."""
    _, data = rng.choice(list(seeds.gguf()))
    if rng.random() < 0.5:
        return change.flip(data, rng)
    at = rng.randrange(4, len(data) - 8)
    return data[:at] + struct.pack("<Q", rng.choice([0, 1, 64, 2**32, 2**62, 2**64 - 1])) + data[at + 8:]


def models(check, count):
    rng, families = check.rng, list(seeds.configs().values())
    for number in check.numbers(count):
        name, data = rng.choice([("config.json", config(families, rng)), ("config.json", config(families, rng)),
                                 ("model.safetensors", safetensors(rng)), ("model.gguf", gguf(rng))])
        # A configuration beside the weights would be read instead of their header.
        (check.work / "config.json").unlink(missing_ok=True)
        path, kind = check.file(name, data), rng.choice(["text", "json"])
        words = ["estimate", path, *rng.choice(SETUPS), "--format", kind]
        check.judge("models", f"{number}-{name}", data, [(kind, words)], len(data) + LAYERS_BYTES)
