"""Compares caches with the own functions of vLLM and SGLang, called on the CPU without PyTorch.

Usage: python3 benches/serving_functions.py FOLDER…

FOLDER is an unpacked wheel of vLLM, 0.24 or later, or of SGLang, 0.5.23: `pip download --no-deps vllm==0.33.0`, then `unzip`. Of vLLM,
`kv_cache_interface.py`, `kv_cache_utils.py` and, where there is one, `kv_cache_planning.py` run as they are, of SGLang `pool_configurator.py`;
whatever else they import stands in as an empty module. Prints a line for each kind of cache. Exits with 1 if one differs.
"""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
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


def release(root: Path, package: str) -> str:
    """The release of the wheel."""
    found = re.search(r"version = '([\d.]+)", (root / package / "_version.py").read_text())
    assert found is not None
    return found[1]


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

    def full(count: int, heads: int, size: int, block: int = BLOCK, value: int | None = None) -> dict[str, Any]:
        return of(interface.FullAttentionSpec, count, block_size=block, num_kv_heads=heads, head_size=size, head_size_v=value or size, dtype=HALF)

    def window(count: int, heads: int, size: int, tokens: int, value: int | None = None) -> dict[str, Any]:
        sizes = {"num_kv_heads": heads, "head_size": size, "head_size_v": value or size}
        return of(interface.SlidingWindowSpec, count, block_size=BLOCK, dtype=HALF, sliding_window=tokens, **sizes)

    def latent(count: int, size: int) -> dict[str, Any]:
        return of(interface.MLAAttentionSpec, count, block_size=BLOCK, num_kv_heads=1, head_size=size, dtype=HALF)

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
        ("a latent", latent(61, 576), {"base": "deepseek-v3"}),
        ("smaller values", full(9, 4, 192, value=128) | window(39, 8, 192, 128, value=128), {"base": "mimo-v2-flash"}),
        ("an indexer", full(60, 4, 128) | latent(57, 128), {"base": "minimax-m3"}),
        ("two sizes of pages", full(5, 2, 512) | window(25, 8, 256, 1024), gemma4),
        ("states", full(16, 4, 256, raised) | states, hybrid),
    ]


def ours(name: str, engine: str, gpu: str, shape: dict[str, Any], flags: dict[str, str]) -> dict[str, Any]:
    """The forecast."""
    config = {key: value for key, value in shape.items() if key != "vision"}
    one = {"name": name, "config": config, "serve": engine, "gpu": gpu, "flags": flags}
    program = ["cargo", "run", "-q", "--locked", "-p", "highwater-serve", "--example", "ask"]
    out = subprocess.run(program, input=json.dumps(one) + "\n", capture_output=True, text=True, check=True, cwd=HERE.parent).stdout
    answer: dict[str, Any] = json.loads(out)
    return answer


def compared_with_vllm(root: Path) -> Iterator[bool]:
    """Blocks, and requests of the longest length, for a cache of 20 GiB; prints and gives whether they are equal."""
    modules, version = functions(root), release(root, "vllm")
    memory, longest, batched = 20 * GIB, 131_072, 8192
    for name, layers, shape in cases(modules[0], tuple(map(int, version.split(".")))):
        flags = {"kv-cache-memory-bytes": str(memory), "max-model-len": str(longest), "max-num-batched-tokens": str(batched)}
        if name == "states":
            flags["enable-prefix-caching"] = ""
        answer = ours(name, f"vllm@{version}", "200GiB", shape, flags)
        own = (answer.get("blocks"), answer.get("concurrency"))
        printed = theirs(root, modules, layers, memory, longest, batched, name == "states")
        print(f"{name:20} vLLM {printed[0]} blocks, {printed[1]:.6f} requests; highwater {own[0]}, {own[1]:.6f}: {verdict(own == printed)}")
        yield own == printed


def verdict(is_equal: bool) -> str:
    """What stands at the end of a row."""
    return "equal" if is_equal else "DIFFERS"


def pool_functions(root: Path, ranks: int) -> ModuleType:
    """SGLang's sizes of pools, for this many tensor-parallel ranks and nothing that is turned on by a flag."""
    torch = stand_in("torch")
    torch._utils._element_size = lambda dtype: dtype.itemsize
    for name in ("sglang", "sglang.srt", "sglang.srt.arg_groups", "sglang.srt.configs", "sglang.srt.mem_cache", "sglang.srt.layers",
                 "sglang.srt.layers.cp", "sglang.srt.layers.attention", "sglang.srt.layers.attention.qsa", "sglang.srt.utils"):  # fmt: skip
        stand_in(name)
    stand_in("sglang.srt.configs.hybrid_arch").mambaish_config = lambda config: config.states
    kinds = stand_in("sglang.srt.configs.model_config")
    for name in ("is_deepseek_v4", "is_minimax_sparse", "dsa_layer_skips_topk"):
        setattr(kinds, name, lambda *_: False)
    kinds.is_deepseek_dsa = lambda config: config.index_dim > 0
    kinds.get_dsa_index_head_dim = lambda config: config.index_dim
    kinds.get_dsa_index_kpool = lambda _: 1
    stand_in("sglang.srt.environ").envs.SGLANG_NPU_ENABLE_SPARSE_KV_OFFLOAD.get = lambda: False
    common = stand_in("sglang.srt.utils.common")
    common.ceil_div = lambda number, of: -(-number // of)
    for name in ("is_hip", "is_npu", "is_float4_e2m1fn_x2"):
        setattr(common, name, lambda *_: False)
    context = stand_in("sglang.srt.runtime_context")
    context.get_parallel = lambda: SimpleNamespace(attn_tp_size=ranks, attn_dcp_size=1)
    context.get_memory = lambda: SimpleNamespace(enable_hisparse=False, enable_unified_memory=False)
    context.get_schedule = lambda: SimpleNamespace(max_total_tokens=None, swa_full_tokens_ratio=0.8)
    context.get_disagg = lambda: SimpleNamespace(disaggregation_mode="null")
    stand_in("sglang.srt.mem_cache.page_interleave").compute_page_shard_scratch_bytes = lambda *_, **__: 0
    pools = stand_in("sglang.srt.mem_cache.memory_pool")
    block = re.search(r"class DSATokenToKVPool\(.*\n    quant_block_size = (\d+)", (root / "sglang/srt/mem_cache/memory_pool.py").read_text())
    assert block is not None
    pools.DSATokenToKVPool = SimpleNamespace(quant_block_size=int(block[1]), index_k_with_scale_buffer_dtype=BYTE)
    stand_in("sglang.srt.layers.cp.utils").get_glm_dsa_layer_split_effective_num_layers = lambda _, layers: layers
    stand_in("sglang.srt.mem_cache.qsa_kv_pool")
    stand_in("sglang.srt.layers.attention.qsa.config").parse_qsa_profile = lambda *_: None
    configurator = stand_in("sglang.srt.mem_cache.kv_cache_configurator")
    configurator.calculate_mla_kv_cache_dim = lambda model_config, **_: model_config.kv_lora_rank + model_config.qk_rope_head_dim
    configurator._should_elide_dsa_index_k = lambda **_: False
    sys.modules.pop("sglang.srt.model_executor.pool_configurator", None)
    stand_in("sglang.srt.model_executor")
    return load(root, "sglang.srt.model_executor.pool_configurator")


class Heads:
    """A model as SGLang's sizes see it: layers with keys and values of full length, and with those of a window."""

    def __init__(self, layers: int, heads: int, size: int, windows: tuple[int, int, int] = (0, 0, 0), latent: tuple[int, int] = (0, 0), index: int = 0, states: int = 0) -> None:
        """`windows` are layers, heads and the size of one; `latent` its rank and the rotated part; `states` the layers without a cache."""
        self.heads, self.window_heads = heads, windows[1]
        self.head_dim = self.v_head_dim = size
        self.swa_head_dim = self.swa_v_head_dim = windows[2]
        self.kv_lora_rank, self.qk_rope_head_dim = latent
        self.attention_arch = None
        self.hf_config = SimpleNamespace(index_dim=index)
        self.states = SimpleNamespace(full_attention_layer_ids=range(layers)) if states else None
        self.layers, self.windows, self.context_len = layers, windows[0], 0

    def get_num_kv_heads(self, ranks: int, _: int = 1) -> int:
        """Heads of a rank."""
        return max(self.heads // ranks, 1)

    def get_swa_num_kv_heads(self, ranks: int) -> int:
        """Heads of a rank in a layer with a window."""
        return max(self.window_heads // ranks, 1)


def pool_tokens(module: ModuleType, model: Heads, element: DataType, memory: int) -> int:
    """Tokens of the full pool, by SGLang."""
    runner = MagicMock(is_draft_worker=False, pp_size=1, use_mla_backend=model.kv_lora_rank > 0, kv_cache_dtype=element, model_config=model, kv_cache_dtype_str="auto", page_size=1, sliding_window_size=0)
    runner.fused_entry_bytes = lambda _: None
    for name in ("is_eagle", "is_standalone", "is_dflash_family"):
        setattr(runner.spec_algorithm, name, lambda: False)
    runner.layer_info = SimpleNamespace(start_layer=0, end_layer=model.layers, num_effective_layers=model.layers,
                                        full_attention_layer_ids=range(model.layers), swa_attention_layer_ids=range(model.windows))  # fmt: skip
    kind = module.HybridSWAPoolConfigurator if model.windows else module.DefaultPoolConfigurator
    tokens: int = kind(runner).calculate_pool_sizes(memory, 1).max_total_num_tokens
    return tokens


def compared_with_sglang(root: Path) -> Iterator[bool]:
    """Tokens of the cache that the forecast arrives at; prints and gives whether they are equal."""
    version = release(root, "sglang")
    rows = [
        ("one kind", Heads(32, 8, 128), {"base": "llama3.1-8b"}, 1, "auto"),
        ("8 bits", Heads(32, 8, 128), {"base": "llama3.1-8b"}, 1, "fp8_e4m3"),
        ("16 ranks", Heads(80, 8, 128), {"base": "llama3.1-70b"}, 16, "auto"),
        ("windows, half", Heads(12, 8, 64, windows=(12, 8, 64)), {"base": "gpt-oss-20b"}, 1, "auto"),
        ("windows, 52 of 62", Heads(10, 16, 128, windows=(52, 16, 128)), {"base": "gemma3-27b"}, 1, "auto"),
        ("a latent", Heads(61, 1, 128, latent=(512, 64)), {"base": "deepseek-v3"}, 8, "auto"),
        ("a sparse latent", Heads(61, 1, 128, latent=(512, 64), index=128), {"base": "deepseek-v3.2"}, 8, "auto"),
        ("states", Heads(12, 2, 256, states=36), {"base": "qwen3-next-80b-a3b"}, 2, "auto"),
    ]
    for name, model, shape, ranks, kind in rows:
        answer = ours(name, f"sglang@{version}", "200GiB", shape, {"tensor-parallel-size": str(ranks), "kv-cache-dtype": kind})
        tokens, memory = answer.get("tokens"), answer["kv_cache_bytes"]
        printed = pool_tokens(pool_functions(root, ranks), model, BYTE if kind != "auto" else HALF, memory)
        print(f"{name:20} SGLang {printed} tokens in {memory} bytes; highwater {tokens}: {verdict(tokens == printed)}")
        yield tokens == printed


def main() -> None:
    """Asks both, and prints both answers."""
    rows = []
    for folder in map(Path, sys.argv[1:]):
        compared = compared_with_vllm if (folder / "vllm").exists() else compared_with_sglang
        rows += compared(folder)
    print(f"{sum(rows)} of {len(rows)} equal")
    sys.exit(not all(rows))


main()
