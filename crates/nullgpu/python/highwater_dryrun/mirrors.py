"""The contents of small tensors of the null GPU, as far as they follow from the program: a copy on the CPU for each storage."""

from __future__ import annotations

from typing import Any

import torch

WHOLE_MAX = 1 << 22
"""The most elements of a tensor of whole numbers or truth values whose contents are kept: routes of experts, positions, masks of pictures."""
FRACTION_MAX = 1 << 17
"""The same for fractions, of which few decide what is allocated: masks of padding are added as fractions, and turned back into masks."""
_PURGE = 4096
"""After so many new storages those that are gone are looked for."""


class Mirrors:
    """By storage. A weak reference keeps a storage's address from being used again, and nothing else of it."""

    def __init__(self) -> None:
        self._copies: "dict[int, tuple[torch.UntypedStorage | None, int]]" = {}
        """With the version of the tensor: what has been written since, nobody has seen. ``None`` if nothing has been written yet."""
        self._weak: "dict[int, Any]" = {}
        self._added = 0

    def get(self, tensor: torch.Tensor) -> "torch.Tensor | None":
        """What the tensor holds, as a view of the copy; ``None`` if that is not known."""
        storage = _storage(tensor)
        copy, version = (None, 0) if storage is None else self._copies.get(storage._cdata, (None, 0))
        if copy is None or version != _version(tensor):
            return None
        view = torch.empty(0, dtype=tensor.dtype)
        try:
            view.set_(copy, tensor.storage_offset(), tensor.size(), tensor.stride())
        except RuntimeError:
            # The storage has been resized since.
            return None
        return view

    def put(self, tensor: torch.Tensor, value: torch.Tensor, *, before: "int | None" = None, is_new: bool = False) -> None:
        """Notes the values of a tensor. ``before`` is the version that it had before it was written, if it had values. No other tensor
        shares the storage of one that ``is_new``; the storage may be larger than the tensor, as the result of `torch.unique` has it."""
        storage = _storage(tensor)
        if storage is None:
            return
        copy, version = self._copies.get(storage._cdata, (None, -1))
        if copy is None or version != before:
            # What the rest of the storage holds is not known, or means nothing as long as nothing was written there.
            is_empty = copy is None and version == before
            if tensor.numel() * tensor.element_size() != storage.nbytes() and not is_new and not is_empty:
                return
            copy = torch.zeros(storage.nbytes(), dtype=torch.uint8).untyped_storage()
        view = torch.empty(0, dtype=tensor.dtype)
        view.set_(copy, tensor.storage_offset(), tensor.size(), tensor.stride())
        view.copy_(value)
        self._keep(storage, copy, tensor)

    def note_unwritten(self, tensor: torch.Tensor) -> None:
        """Notes that nothing has been written to a tensor yet: it may be filled part by part."""
        storage = _storage(tensor)
        if storage is not None and storage._cdata not in self._copies:
            self._keep(storage, None, tensor)

    def zeros_if_unwritten(self, tensor: torch.Tensor) -> "torch.Tensor | None":
        """Zeros for a tensor to which nothing has been written yet; ``None`` of another one."""
        storage = _storage(tensor)
        copy, version = (None, -1) if storage is None else self._copies.get(storage._cdata, (None, -1))
        if copy is not None or version != _version(tensor) or not may_be_kept(tensor):
            return None
        return torch.zeros(tensor.shape, dtype=tensor.dtype)

    def begin_with(self, tensor: torch.Tensor, other: "Mirrors", before: "int | None") -> None:
        """Takes over what the others hold of a tensor's storage, unless its content is held here; ``before`` is the version that it had
        before a part of it was written."""
        storage = _storage(tensor)
        if storage is None or storage._cdata not in other._copies:
            return
        copy, version = other._copies[storage._cdata]
        own, own_version = self._copies.get(storage._cdata, (None, -1))
        if version == before and (own is None or own_version != before):
            self._keep(storage, None if copy is None else copy.clone(), tensor)
            self._copies[storage._cdata] = (self._copies[storage._cdata][0], version)

    def put_storage(self, tensor: torch.Tensor, value: torch.Tensor) -> None:
        """Notes what the whole storage of a tensor holds, in bytes."""
        storage = _storage(tensor)
        if storage is not None and storage.nbytes() == value.numel():
            self._keep(storage, value.untyped_storage(), tensor)

    def resize(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Resizes a tensor, by a function of PyTorch's: what fits is kept, and what is new is as good as 0."""
        tensor = args[0]
        known = tensor.is_cuda and self.get(tensor) is not None
        copy = self._copies[tensor.untyped_storage()._cdata][0] if known else None
        out = func(*args, **kwargs)
        if copy is not None and may_be_kept(tensor):
            value = torch.zeros(tensor.untyped_storage().nbytes(), dtype=torch.uint8)
            kept = min(value.numel(), copy.nbytes())
            value[:kept] = torch.empty(0, dtype=torch.uint8).set_(copy)[:kept]
            self.put_storage(tensor, value)
        return out

    def _keep(self, storage: "torch.UntypedStorage", copy: "torch.UntypedStorage | None", tensor: torch.Tensor) -> None:
        key = storage._cdata
        if key not in self._weak:
            self._weak[key] = storage._weak_ref()
            self._added += 1
            if self._added % _PURGE == 0:
                self._purge()
        self._copies[key] = (copy, _version(tensor))

    def forget(self, tensor: torch.Tensor) -> None:
        """Notes that what the tensor holds is not known any more."""
        storage = _storage(tensor)
        if storage is not None:
            self._copies.pop(storage._cdata, None)

    def holds(self, tensor: torch.Tensor) -> bool:
        """Whether something is known of the tensor's storage, be it old."""
        storage = _storage(tensor)
        return storage is not None and self._copies.get(storage._cdata, (None, 0))[0] is not None

    def _purge(self) -> None:
        for key in [key for key, weak in self._weak.items() if torch.UntypedStorage._expired(weak)]:
            torch.UntypedStorage._free_weak_ref(self._weak.pop(key))
            self._copies.pop(key, None)


class Numbers:
    """A number for all elements of a storage."""

    def __init__(self) -> None:
        self._numbers: "dict[int, tuple[Any, int, int]]" = {}
        """With a weak reference to the storage, and the version that the tensor had."""
        self._added = 0

    def get(self, tensor: torch.Tensor) -> "int | None":
        """The number of the tensor's storage; ``None`` if there is none, or if the storage has been written to since."""
        storage = _storage(tensor)
        _, number, version = (None, None, 0) if storage is None else self._numbers.get(storage._cdata, (None, None, 0))
        return number if version == _version(tensor) else None

    def put(self, tensor: torch.Tensor, number: int) -> None:
        """Notes the number, unless the storage has one."""
        storage = _storage(tensor)
        if storage is None or self.get(tensor) is not None:
            return
        weak = self._numbers[storage._cdata][0] if storage._cdata in self._numbers else storage._weak_ref()
        self._numbers[storage._cdata] = (weak, number, _version(tensor))
        self._added += 1
        if self._added % _PURGE == 0:
            for key in [key for key, (weak, *_) in self._numbers.items() if torch.UntypedStorage._expired(weak)]:
                torch.UntypedStorage._free_weak_ref(self._numbers.pop(key)[0])


def may_be_kept(tensor: torch.Tensor, *, is_whole: bool = False) -> bool:
    """Whether a tensor's contents are kept at all; ``is_whole`` if its fractions are whole numbers."""
    storage = _storage(tensor)
    if storage is None:
        return False
    dtype = tensor.dtype
    most = FRACTION_MAX if (dtype.is_floating_point or dtype.is_complex) and not is_whole else WHOLE_MAX
    return 0 < storage.nbytes() <= most * dtype.itemsize


def share_storage(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two tensors have one storage."""
    storage = _storage(one)
    there = _storage(other)
    return storage is not None and there is not None and storage._cdata == there._cdata


def version(tensor: torch.Tensor) -> int:
    """Grows whenever something is written to the tensor, or to another on its storage; 0 where that is not counted."""
    return 0 if tensor.is_inference() else tensor._version


_version = version


def _storage(tensor: torch.Tensor) -> "torch.UntypedStorage | None":
    """Where the tensor's elements are; ``None`` of one that has no such place: sparse, nested, or a wrapper of `torch.func`'s."""
    if tensor.layout != torch.strided:
        return None
    try:
        return tensor.untyped_storage()
    except (NotImplementedError, RuntimeError):
        return None
