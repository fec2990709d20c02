"""Weights out of nothing: what costs time and memory on the host, and does not change what the device holds.

Models that are built keep what memory of the host they get, unset, of which the system gives no page as long as nobody writes to it.
A checkpoint that is loaded is a file that is all hole, with a header that says what the model's own definition does.
"""

from __future__ import annotations

import functools
import json
import os
import struct
import tempfile
from collections.abc import Callable
from typing import Any

from highwater_dryrun import importing

_NAMES = {
    "float64": "F64",
    "float32": "F32",
    "float16": "F16",
    "bfloat16": "BF16",
    "float8_e4m3fn": "F8_E4M3",
    "float8_e5m2": "F8_E5M2",
    "int64": "I64",
    "int32": "I32",
    "int16": "I16",
    "int8": "I8",
    "uint8": "U8",
    "bool": "BOOL",
}
"""Types of tensors in a safetensors file."""
_SHARD = 1 << 30
"""Bytes of a file, unless one tensor has more: a system may refuse to map what it could not hold."""


def leave_unset() -> None:
    """Has :mod:`torch.nn.init` leave tensors on the CPU as they are."""
    import torch
    from torch.nn import init

    def unset(function: Any) -> Any:
        @functools.wraps(function)
        def initialize(*arguments: Any, **options: Any) -> Any:
            tensor = arguments[0] if arguments else options.get("tensor")
            if isinstance(tensor, torch.Tensor) and tensor.device.type == "cpu":
                return tensor
            return function(*arguments, **options)

        return initialize

    for name in dir(init):
        if name.endswith("_") and not name.startswith("_") and callable(getattr(init, name)):
            setattr(init, name, unset(getattr(init, name)))


def make_checkpoints(module: Any) -> None:
    """Has transformers' models load made-up checkpoints; ``module`` is ``transformers.modeling_utils``."""
    model = module.PreTrainedModel
    load = model.from_pretrained.__func__

    @functools.wraps(load)
    def from_pretrained(cls: Any, path: Any, *arguments: Any, **options: Any) -> Any:
        if path is None or options.get("state_dict") is not None:
            return load(cls, path, *arguments, **options)
        folder = options.get("subfolder") or ""
        config = options.get("config")
        if not isinstance(config, module.PreTrainedConfig if hasattr(module, "PreTrainedConfig") else module.PretrainedConfig):
            kept = ("subfolder", "revision", "token", "cache_dir", "local_files_only")
            where = {option: options[option] for option in kept if options.get(option) is not None}
            config = cls.config_class.from_pretrained(config or path, **where)
        for option in ("subfolder", "revision", "variant", "use_safetensors"):
            options.pop(option, None)
        return load(cls, _checkpoint(cls, config, os.path.join(str(path), folder)), *arguments, **options)

    model.from_pretrained = classmethod(from_pretrained)

    def leave(self: Any, module: Any, *_: Any, **__: Any) -> None:
        """In the place of what initialises a part of a model, where that is on the CPU."""
        if any(parameter.device.type != "cpu" for parameter in module.parameters(recurse=False)):
            initialize(self, module, *_, **__)

    if hasattr(model, "_initialize_weights"):
        initialize = model._initialize_weights
        model._initialize_weights = leave


def _checkpoint(cls: Any, config: Any, path: Any) -> str:
    """A directory with the model's configuration and a checkpoint of holes."""
    import copy

    import torch

    from highwater_dryrun import settings

    with torch._C.DisableTorchFunction(), torch.device("meta"):
        model = cls(copy.deepcopy(config))
    directory = tempfile.mkdtemp(prefix="weights-", dir=settings.get().directory)
    if os.path.isdir(str(path)):
        for name in os.listdir(path):
            if name.endswith((".json", ".txt", ".model", ".py", ".jinja")) and not name.endswith(".index.json"):
                os.symlink(os.path.join(os.path.abspath(path), name), os.path.join(directory, name))
    else:
        config.save_pretrained(directory)
    dtype = getattr(config, "dtype", None) or getattr(config, "torch_dtype", None) or torch.float32
    dtype = getattr(torch, dtype) if isinstance(dtype, str) else dtype
    _write(directory, _tensors(model), dtype, "model")
    return directory


def make_diffusion_checkpoints(module: Any) -> None:
    """The same for diffusers' models; ``module`` is ``diffusers.models.modeling_utils``."""
    model = module.ModelMixin
    load = model.from_pretrained.__func__

    @functools.wraps(load)
    def from_pretrained(cls: Any, path: Any, *arguments: Any, **options: Any) -> Any:
        import torch

        from highwater_dryrun import settings

        kept = ("subfolder", "revision", "token", "cache_dir", "local_files_only")
        where = {option: options[option] for option in kept if options.get(option) is not None}
        config = cls.load_config(path, **where)
        with torch._C.DisableTorchFunction(), torch.device("meta"):
            made = cls.from_config(config)
        directory = tempfile.mkdtemp(prefix="weights-", dir=settings.get().directory)
        made.save_config(directory)
        _write(directory, made.state_dict(), torch.float32, "diffusion_pytorch_model")
        for option in ("subfolder", "revision", "variant", "use_safetensors"):
            options.pop(option, None)
        return load(cls, directory, *arguments, **options)

    model.from_pretrained = classmethod(from_pretrained)


class Unread(dict):  # type: ignore[type-arg]
    """In the place of the contents of a file of weights that is not there: a model that is told to take them over stays as it is."""

    def __missing__(self, key: Any) -> "Unread":
        return self


def take_over_unread() -> None:
    """Has files of weights from the network be :class:`Unread`, which models accept."""
    import torch

    take_over = torch.nn.Module.load_state_dict

    @functools.wraps(take_over)
    def load_state_dict(self: Any, state_dict: Any, *arguments: Any, **options: Any) -> Any:
        if isinstance(state_dict, Unread):
            return torch.nn.modules.module._IncompatibleKeys([], [])
        return take_over(self, state_dict, *arguments, **options)

    torch.nn.Module.load_state_dict = load_state_dict  # type: ignore[method-assign]
    torch.hub.load_state_dict_from_url = lambda *_, **__: Unread()
    for library, name, replacement in _LOADERS:
        importing.after(library, lambda module, name=name, new=replacement: setattr(module, name, new))
    importing.after("sentence_transformers.base.modules.module", _leave_modules)


_LOADERS: "tuple[tuple[str, str, Callable[..., Any]], ...]" = (
    # torchvision's models and torchaudio's ask the network by way of this.
    ("torchvision.models._api", "load_state_dict_from_url", lambda *_, **__: Unread()),
    ("timm.models._builder", "load_pretrained", lambda *_, **__: None),
    ("peft.peft_model", "load_peft_weights", lambda *_, **__: {}),
)
"""By module, what reads a file of weights, and what does in its place."""


def _leave_modules(module: Any) -> None:
    def load_torch_weights(cls: Any, *arguments: Any, model: Any = None, **options: Any) -> Any:
        return Unread() if model is None else model

    module.Module.load_torch_weights = classmethod(load_torch_weights)


def _tensors(model: Any) -> "dict[str, Any]":
    """The tensors that a checkpoint of the model has: what is tied to another is in it once."""
    tied = getattr(model, "all_tied_weights_keys", None) or getattr(model, "_tied_weights_keys", None) or []
    tied = set(tied) if getattr(model.config, "tie_word_embeddings", True) else set()
    return {name: tensor for name, tensor in model.state_dict().items() if name not in tied}


def _write(directory: str, tensors: "dict[str, Any]", dtype: Any, stem: str) -> None:
    """A safetensors checkpoint of these tensors, fractions as ``dtype``, whose files begin with ``stem``; it takes no more of the disk than its headers."""
    shards: "list[dict[str, Any]]" = []
    at = _SHARD
    for name, tensor in tensors.items():
        own = dtype if tensor.dtype.is_floating_point else tensor.dtype
        size = tensor.numel() * own.itemsize
        if at + size > _SHARD:
            shards.append({"__metadata__": {"format": "pt"}})
            at = 0
        kind = _NAMES[str(own).replace("torch.", "")]
        shards[-1][name] = {"dtype": kind, "shape": list(tensor.shape), "data_offsets": [at, at + size]}
        at += size
    places: "dict[str, str]" = {}
    for number, header in enumerate(shards, 1):
        file = f"{stem}-{number:05}-of-{len(shards):05}.safetensors"
        _write_shard(os.path.join(directory, file), header)
        places.update((name, file) for name in header if name != "__metadata__")
    with open(os.path.join(directory, f"{stem}.safetensors.index.json"), "w") as index:
        json.dump({"metadata": {}, "weight_map": places}, index)


def _write_shard(path: str, header: "dict[str, Any]") -> None:
    end = max(entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__")
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + end)
