"""Compares blocks and requests with vLLM's own functions, called on the CPU without PyTorch.

Usage: python3 benches/serving_functions.py FOLDER

FOLDER is an unpacked wheel of vLLM, 0.24 or later: `pip download --no-deps vllm==0.33.0`, then `unzip`. Its `kv_cache_interface.py`,
`kv_cache_utils.py` and, where there is one, `kv_cache_planning.py` run as they are; whatever else they import stands in as an empty module.
Prints a line for each kind of cache.
"""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import MagicMock

HERE = Path(__file__).parent
GIB = 1 << 30
BLOCK = 16


class DataType:
    """A type of PyTorch, as far as its size."""

    def __init__(self, itemsize: int) -> None:
        self.itemsize = itemsize


HALF, BYTE = DataType(2), DataType(1)


def stand_in(name: str) -> MagicMock:
    """An empty module."""
    module = MagicMock(name=name)
    module.__path__ = []
    module.__spec__ = None
    sys.modules[name] = module
    return module


def load(root: Path, name: str) -> ModuleType:
    """A module of vLLM; those that it imports are stand-ins, made as they are missed."""
    spec = importlib.util.spec_from_file_location(name, root / (name.replace(".", "/") + ".py"))
    assert spec is not None and spec.loader is not None
    while True:
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        try:
            spec.loader.exec_module(module)
        except ModuleNotFoundError as error:
            stand_in(str(error.name))
        else:
            return module


class Registry:
    """Every kind of cache is its own."""

    @staticmethod
    def get_uniform_type_base_spec(spec: Any) -> type:
        """The kind of a layer's cache."""
        return spec if isinstance(spec, type) else type(spec)


def release(root: Path) -> tuple[int, ...]:
    """The release of the wheel."""
    found = re.search(r"version = '([\d.]+)", (root / "vllm/_version.py").read_text())
    assert found is not None
    return tuple(map(int, found[1].split(".")))


def functions(root: Path) -> tuple[ModuleType, ModuleType, ModuleType]:
    """The caches of layers, the planning of blocks, and the capacity."""
    torch = stand_in("torch")
    torch.dtype = DataType
    for name in ("vllm", "vllm.utils", "vllm.v1", "vllm.v1.core"):
        stand_in(name)
    rounding = stand_in("vllm.utils.math_utils")
    rounding.cdiv = lambda number, of: -(-number // of)
    rounding.round_up = lambda number, to: -(-number // to) * to
    stand_in("vllm.utils.torch_utils").get_dtype_size = lambda dtype: dtype.itemsize
    for name in ("vllm.v1.attention", "vllm.v1.hisparse"):
        stand_in(name)
    stand_in("vllm.v1.attention.backend").MultipleOf = type("MultipleOf", (), {})
    stand_in("vllm.v1.hisparse.layout").get_hisparse_kv_cache_groups = lambda *_: None
    if (root / "vllm/v1/kv_cache_layout.py").exists():
        load(root, "vllm.v1.kv_cache_layout")
    interface, utils = load(root, "vllm.v1.kv_cache_interface"), load(root, "vllm.v1.core.kv_cache_utils")
    interface.KVCacheSpecRegistry = Registry()  # type: ignore[attr-defined]
    if not (root / "vllm/v1/core/kv_cache_planning.py").exists():
        return interface, utils, utils
    # Its builder is a class of another module, which the functions called here do not need.
    stand_in("vllm.v1.core.kv_cache_config_builder").KVCacheConfigBuilder = object
    return interface, load(root, "vllm.v1.core.kv_cache_planning"), utils


def theirs(
    root: Path, modules: tuple[ModuleType, ModuleType, ModuleType], layers: dict[str, Any], memory: int, longest: int, batched: int, has_prefixes: bool
) -> tuple[int, float]:
    """Blocks, and requests of the longest length, by vLLM."""
    _, planning, utils = modules
    config = MagicMock()
    # `VllmConfig.max_in_flight_tokens`, and the layout of backends that do not ask for another.
    config.max_in_flight_tokens = 2 * batched
    config.attention_config.hisparse_config = None
    if (root / "vllm/v1/kv_cache_layout.py").exists():
        config.cache_config.get_resolved_kv_cache_layout = lambda: sys.modules["vllm.v1.kv_cache_layout"].KVCacheLayout.LBNHC
    config.scheduler_config.disable_hybrid_kv_cache_manager = False
    config.scheduler_config.max_num_batched_tokens = batched
    config.model_config.max_model_len = longest
    config.cache_config.num_gpu_blocks_override = None
    config.cache_config.mamba_cache_mode = "align" if has_prefixes else "none"
    config.parallel_config.decode_context_parallel_size = 1
    config.parallel_config.prefill_context_parallel_size = 1
    config.speculative_config = None
    groups = planning.get_kv_cache_groups(config, dict(layers))
    cache = planning.get_kv_cache_config_from_groups(config, groups, memory)
    return cache.num_blocks, utils.get_max_concurrency_for_kv_cache_config(config, cache)


def cases(interface: ModuleType, version: tuple[int, ...]) -> list[tuple[str, dict[str, Any], dict[str, Any]]]:
    """Names, layers as vLLM describes them, and configurations."""
    gemma4, hybrid = (
        next(shape for pattern, shape in json.loads((HERE / "serving_models.json").read_text())["models"] if pattern.startswith(name))
        for name in ("gemma-4-26b", "qwen3.[68]-27b")
    )

    def of(kind: Callable[..., Any], count: int, **fields: Any) -> dict[str, Any]:
        known = {name: value for name, value in fields.items() if name in kind.__dataclass_fields__}  # type: ignore[attr-defined]
        return {f"{kind.__name__}.{fields.get('head_size', 0)}.{at}": kind(**known) for at in range(count)}

    def full(count: int, heads: int, size: int, block: int = BLOCK) -> dict[str, Any]:
        return of(interface.FullAttentionSpec, count, block_size=block, num_kv_heads=heads, head_size=size, head_size_v=size, dtype=HALF)

    def window(count: int, heads: int, size: int, tokens: int) -> dict[str, Any]:
        return of(interface.SlidingWindowSpec, count, block_size=BLOCK, num_kv_heads=heads, head_size=size, head_size_v=size, dtype=HALF, sliding_window=tokens)

    # A block of 784 tokens is the first that holds a state: `vllm/platforms/interface.py` raises it before there are layers.
    raised = 784
    page = raised * 4 * 256 * 2 * HALF.itemsize
    states = of(interface.MambaSpec, 48, block_size=262_144, shapes=((page,),), dtypes=(BYTE,), page_size_padded=page, mamba_cache_mode="align",
                # Gated delta layers set it since 0.33.
                num_prefill_checkpoint_blocks=int(version >= (0, 33)))  # fmt: skip
    return [
        ("one kind", full(32, 8, 128), {"base": "llama3.1-8b"}),
        ("windows, half", full(12, 8, 64) | window(12, 8, 64, 128), {"base": "gpt-oss-20b"}),
        ("windows, 52 of 62", full(10, 16, 128) | window(52, 16, 128, 1024), {"base": "gemma3-27b", "max_position_embeddings": 131_072}),
        ("a latent", of(interface.MLAAttentionSpec, 61, block_size=BLOCK, num_kv_heads=1, head_size=576, dtype=HALF), {"base": "deepseek-v3"}),
        ("two sizes of pages", full(5, 2, 512) | window(25, 8, 256, 1024), gemma4),
        ("states", full(16, 4, 256, raised) | states, hybrid),
    ]


def main() -> None:
    """Asks both, and prints both answers."""
    root = Path(sys.argv[1])
    modules, version = functions(root), release(root)
    memory, longest, batched = 20 * GIB, 131_072, 8192
    program = ["cargo", "run", "-q", "--locked", "-p", "highwater-serve", "--example", "ask"]
    equal = 0
    rows = cases(modules[0], version)
    for name, layers, shape in rows:
        flags = {"kv-cache-memory-bytes": str(memory), "max-model-len": str(longest), "max-num-batched-tokens": str(batched)}
        if name == "states":
            flags["enable-prefix-caching"] = ""
        one = {"name": name, "config": {key: value for key, value in shape.items() if key != "vision"}, "serve": "vllm@" + ".".join(map(str, version)), "gpu": "200GiB", "flags": flags}
        out = subprocess.run(program, input=json.dumps(one) + "\n", capture_output=True, text=True, check=True, cwd=HERE.parent).stdout
        answer = json.loads(out)
        own = (answer.get("blocks"), answer.get("concurrency"))
        printed = theirs(root, modules, layers, memory, longest, batched, name == "states")
        equal += own == printed
        print(f"{name:20} vLLM {printed[0]} blocks, {printed[1]:.6f} requests; highwater {own[0]}, {own[1]:.6f}: {'equal' if own == printed else 'DIFFERS'}")
    print(f"{equal} of {len(rows)} equal")


main()
