"""What a model needs, worked out from its configuration."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from highwater._highwater import estimate_json


class _Config(Protocol):
    """A configuration of transformers."""

    def to_dict(self) -> dict[str, Any]: ...


@dataclass(frozen=True)
class Estimate:
    """An estimate, in bytes of one card.

    Attributes
    ----------
    parameters : int
        How many parameters the model has.
    peak_requested_bytes, peak_allocated_bytes : int
        The peaks of what is asked of the allocator and of what it hands out, both without library workspaces.
    workspace_bytes : int
        What cuBLAS works in.
    peak_reserved_bytes : int
        What the allocator is expected to hold, workspaces included.
    context_bytes, total_bytes : int
        What the CUDA context takes beside it, and both together.
    activations_per_token : int
        Numbers in the outputs of all modules for one token.
    breakdown : dict
        Bytes at the peak by category.
    peak_phase : str
        When the peak is, in words.
    document : dict
        The whole document of ``highwater estimate --format json``.
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


def estimate(
    config_or_model: str | os.PathLike[str] | Mapping[str, Any] | _Config | Any,
    *,
    batch: int = 1,
    seq: int | None = None,
    dtype: str = "float32",
    autocast: str | None = None,
    optimizer: str = "adamw",
    attention: str = "sdpa",
    checkpointing: bool = False,
    loss: str = "labels",
    keep: str = "outputs",
    mode: str = "train",
    new_tokens: int = 64,
    cache: str = "dynamic",
    accumulation: int = 1,
    lora_rank: int | None = None,
    lora_targets: str = "query-value",
    quantise: str | None = None,
    zero: int | None = None,
    fsdp: bool = False,
    world_size: int = 1,
    tensor_parallel: int = 1,
    pipeline_parallel: int = 1,
    gpu: str = "h200",
    torch: str = "2.11",
) -> Estimate:
    """Work out what a model needs of a GPU's memory, without a GPU, PyTorch or the model.

    Parameters
    ----------
    config_or_model
        A name such as ``"qwen2.5-1.5b"``, a path (``config.json``, a directory, a file of weights), a configuration as a mapping,
        a configuration of transformers, or a model that has one.
    batch, seq
        Sequences of a micro-batch, and their tokens.
    dtype, autocast
        Types of the weights and of ``torch.autocast``: ``"float32"``, ``"bfloat16"``, ``"float16"``; also ``torch.bfloat16``.
    optimizer, attention, checkpointing, loss, keep, mode, new_tokens, cache, accumulation
        As the options of ``highwater estimate``.
    lora_rank, lora_targets, quantise
        Adapters, and four-bit weights below them.
    zero, fsdp, world_size, tensor_parallel, pipeline_parallel
        How the model is spread over cards.
    gpu, torch
        The card and the release of PyTorch, which decide kernels and workspaces.

    Returns
    -------
    Estimate
        The peak, what is there at the peak, and how far off that may be.

    Raises
    ------
    SnapshotError
        If there is no such model, or an option makes no sense.

    Examples
    --------
    >>> import highwater
    >>> highwater.estimate("gpt2", batch=4, seq=512).parameters
    124439808
    """
    options = {
        "--batch": batch,
        "--seq": seq,
        "--dtype": _name(dtype),
        "--autocast": None if autocast is None else _name(autocast),
        "--optimizer": optimizer,
        "--attention": attention,
        "--loss": loss,
        "--keep": keep,
        "--mode": mode,
        "--new-tokens": new_tokens,
        "--cache": cache,
        "--accumulation": accumulation,
        "--lora-rank": lora_rank,
        "--lora-targets": None if lora_rank is None else lora_targets,
        "--quantise": quantise,
        "--zero": zero,
        "--world-size": world_size,
        "--tensor-parallel": tensor_parallel,
        "--pipeline-parallel": pipeline_parallel,
        "--gpu": gpu,
        "--torch": torch,
    }
    words = [f"{name}={value}" for name, value in options.items() if value is not None]
    words += [name for name, wanted in {"--checkpointing": checkpointing, "--fsdp": fsdp}.items() if wanted]
    document = json.loads(estimate_json(_described(config_or_model), words))
    names = [name for name in Estimate.__dataclass_fields__ if name not in ("document", "breakdown")]
    return Estimate(
        breakdown=document["breakdown"], document=document, **{name: document[name] for name in names}
    )


def _name(dtype: object) -> str:
    """Give the name of a type: ``torch.bfloat16`` prints as that."""
    return str(dtype).removeprefix("torch.")


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
