"""The memory that a model needs, computed from its configuration."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, overload

from highwater._highwater import estimate_json, serve_json
from highwater._html import preformatted, pretty


class _Config(Protocol):
    """A configuration of transformers."""

    def to_dict(self) -> dict[str, Any]: ...


class _Shown:
    """An answer that shows as the command prints it."""

    text: str

    def __str__(self) -> str:
        return self.text

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        pretty(printer, self, lambda: self.text)

    def _repr_html_(self) -> str:
        return preformatted(self.text)


@dataclass(frozen=True)
class Estimate(_Shown):
    """An estimate, in bytes of one GPU.

    Attributes
    ----------
    parameters : int
        The number of parameters.
    peak_requested_bytes, peak_allocated_bytes : int
        The peaks of requested and of allocated memory, both without library workspaces.
    workspace_bytes : int
        Workspaces of cuBLAS.
    peak_reserved_bytes : int
        The expected reserved memory, workspaces included.
    context_bytes, total_bytes : int
        The CUDA context, and the sum of both.
    activations_per_token : int
        Elements in the outputs of all modules per token.
    breakdown : dict
        Bytes at the peak by category.
    peak_phase : str
        The phase of the peak, in words.
    document : dict
        The whole document of ``highwater estimate --format json``.
    text : str
        The output of ``highwater estimate``; ``print`` and notebooks show it.
    """

    parameters: int
    peak_requested_bytes: int
    peak_allocated_bytes: int
    workspace_bytes: int
    peak_reserved_bytes: int
    context_bytes: int
    total_bytes: int
    activations_per_token: int
    breakdown: dict[str, int]
    peak_phase: str
    document: dict[str, Any] = field(repr=False, compare=False)
    text: str = field(default="", repr=False, compare=False)


@dataclass(frozen=True)
class Serving(_Shown):
    """A model that an engine serves, in bytes and tokens of one rank.

    Attributes
    ----------
    starts : bool
        Whether the engine starts.
    refusal : str or None
        Why it does not.
    kv_cache_bytes : int
        The cache of the rank with the least; negative if the budget is exceeded.
    tokens : int
        Tokens of the cache, as this release prints them.
    concurrency : float
        Requests of the longest length at once.
    longest_context_tokens : int
        The longest sequence that the cache holds.
    document : dict
        The whole document of ``highwater estimate --serve ENGINE --format json``.
    text : str
        The output of the command; ``print`` and notebooks show it.
    """

    starts: bool
    refusal: str | None
    kv_cache_bytes: int
    tokens: int
    concurrency: float
    longest_context_tokens: int
    document: dict[str, Any] = field(repr=False, compare=False)
    text: str = field(default="", repr=False, compare=False)


@overload
def estimate(
    config_or_model: str | os.PathLike[str] | Mapping[str, Any] | _Config | Any, *, serve: str, gpu: str = ..., **engine: Any
) -> Serving: ...


@overload
def estimate(
    config_or_model: str | os.PathLike[str] | Mapping[str, Any] | _Config | Any,
    *,
    serve: None = ...,
    batch: int = ...,
    seq: int | None = ...,
    dtype: str | None = ...,
    autocast: str | None = ...,
    optimizer: str = ...,
    attention: str = ...,
    checkpointing: bool = ...,
    loss: str = ...,
    keep: str = ...,
    mode: str = ...,
    new_tokens: int = ...,
    cache: str = ...,
    height: int | None = ...,
    width: int | None = ...,
    frames: int | None = ...,
    offload: str = ...,
    accumulation: int = ...,
    lora_rank: int | None = ...,
    lora_targets: str = ...,
    lora_dropout: float = ...,
    quantise: str | None = ...,
    zero: int = ...,
    fsdp: bool = ...,
    world_size: int = ...,
    tensor_parallel: int = ...,
    pipeline_parallel: int = ...,
    gpu: str = ...,
    torch: str = ...,
) -> Estimate: ...


def estimate(
    config_or_model: str | os.PathLike[str] | Mapping[str, Any] | _Config | Any,
    *,
    serve: str | None = None,
    batch: int = 1,
    seq: int | None = None,
    dtype: str | None = None,
    autocast: str | None = None,
    optimizer: str = "adamw",
    attention: str = "sdpa",
    checkpointing: bool = False,
    loss: str = "labels",
    keep: str = "outputs",
    mode: str = "train",
    new_tokens: int = 64,
    cache: str = "dynamic",
    height: int | None = None,
    width: int | None = None,
    frames: int | None = None,
    offload: str = "none",
    accumulation: int = 1,
    lora_rank: int | None = None,
    lora_targets: str = "query-value",
    lora_dropout: float = 0.0,
    quantise: str | None = None,
    zero: int = 0,
    fsdp: bool = False,
    world_size: int = 1,
    tensor_parallel: int = 1,
    pipeline_parallel: int = 1,
    gpu: str = "h200",
    torch: str = "2.11",
    **engine: Any,
) -> Estimate | Serving:
    """Compute the GPU memory that a model needs, without a GPU, PyTorch or the model.

    Parameters
    ----------
    config_or_model
        A name such as ``"qwen2.5-1.5b"``, a path (``config.json``, a directory, a file of weights), a configuration as a mapping,
        a configuration of transformers, or a model that has one.
    serve, engine
        An engine that serves the model, such as ``"vllm@0.11.0"``, and its own flags with ``_`` for ``-``: ``max_model_len=8192``. Beside
        them only ``gpu`` and ``dtype`` count; ``need="32x8192"`` and ``fit="h100,l4"`` work as on the command line.
    batch, seq
        Sequences of a micro-batch, and their tokens.
    dtype, autocast
        Types of the weights and of ``torch.autocast``: ``"float32"``, ``"bfloat16"``, ``"float16"``; also ``torch.bfloat16``. By
        default weights have the type of the configuration, or float32 if it has none or with ``autocast``.
    optimizer
        ``"adamw"``, ``"adamw-fused"``, ``"adamw-foreach-off"``, ``"adamw-amsgrad"``, ``"adam"``, ``"sgd"``, ``"sgd-momentum"``,
        ``"rmsprop"``, ``"adagrad"``, ``"adadelta"``, ``"nadam"``, ``"radam"``, ``"adamax"``, ``"adafactor"``, ``"muon"``,
        ``"lion"``, ``"adamw8bit"``, ``"paged-adamw8bit"``, ``"lion8bit"``.
    attention, checkpointing
        The implementation, ``"sdpa"``, ``"eager"`` or ``"flash"``, and whether gradients are checkpointed.
    loss, keep
        The source of the loss, ``"labels"`` or ``"mean-logits"``, and the value that the script keeps until the end of the next
        forward pass, the model's ``"outputs"`` or only the ``"loss"``.
    mode, new_tokens, cache
        ``"train"``, ``"forward"`` or ``"generate"``. For ``"generate"``, also the number of tokens, and the KV cache:
        ``"dynamic"``, ``"static"``, or its bits ``"8"``, ``"4"``, ``"2"``.
    height, width, frames, offload
        The image or video that a pipeline of diffusers generates, and the weights that wait in the host's memory:
        ``"none"``, ``"model"`` for those of models that do not run, or ``"sequential"`` for those of modules that do not run.
    accumulation
        Micro-batches of a step.
    lora_rank, lora_targets, lora_dropout, quantise
        Adapters of this rank on ``"query-value"``, ``"attention"`` or ``"all-linear"``, the dropout before them, and frozen
        weights in four bits, ``"nf4"`` or ``"nf4-double"``. The other three need ``lora_rank``.
    zero, fsdp, world_size, tensor_parallel, pipeline_parallel
        The distribution of the model over GPUs: a stage of ZeRO, ``0``, ``1``, ``2`` or ``3``, or FSDP 2, over ``world_size`` ranks.
    gpu, torch
        The GPU, such as ``"a100"``, and the release of PyTorch, ``"2.11"`` or ``"2.15"``, which decide kernels and workspaces.

    Returns
    -------
    Estimate or Serving
        The peak, its parts, and the error band; with ``serve`` the cache, its tokens, and whether the engine starts.

    Raises
    ------
    SnapshotError
        If there is no such model, or an option is invalid.

    Examples
    --------
    >>> import highwater
    >>> highwater.estimate("gpt2", batch=4, seq=512).parameters
    124439808
    """
    given = {name: value for name, value in locals().items() if name not in ("config_or_model", "serve", "engine")}
    if serve is not None:
        return _serving(config_or_model, {"serve": serve, "gpu": gpu, "dtype": dtype, **engine})
    given |= engine
    options = {name.replace("_", "-"): value for name, value in given.items()}
    written, text = estimate_json(_described(config_or_model), json.dumps(options, default=str))
    document = json.loads(written)
    names = [name for name in Estimate.__dataclass_fields__ if name not in ("document", "breakdown", "text")]
    return Estimate(
        breakdown=document["breakdown"], document=document, text=text, **{name: document[name] for name in names}
    )


def _serving(model: Any, given: dict[str, Any]) -> Serving:
    options = {name.replace("_", "-"): value for name, value in given.items()}
    written, text = serve_json(_described(model), json.dumps(options, default=str))
    document = json.loads(written)
    names = [name for name in Serving.__dataclass_fields__ if name not in ("document", "refusal", "text")]
    refusal = document.get("refusal") or {}
    own = {name: document[name] for name in names}
    return Serving(refusal=refusal.get("sentence"), document=document, text=text, **own)


def _described(model: Any) -> str:
    """Give a model as the native half takes it: a name or path, or a configuration as JSON."""
    if isinstance(model, (str, os.PathLike)):
        return os.fspath(model)
    if isinstance(model, Mapping):
        return json.dumps(dict(model), default=str)
    if hasattr(model, "to_dict"):
        return json.dumps(model.to_dict(), default=str)
    if hasattr(model, "config"):
        return _described(model.config)
    raise TypeError(f"expected a name, a path, a configuration or a model, not {type(model).__name__}")
