"""Tensors that are made up: as much of them as the cycle detector asks for."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

_addresses = itertools.count(0x7F0000000000, 1 << 30)


class FakeStorage:
    """As ``torch.UntypedStorage``."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._address = next(_addresses)

    def nbytes(self) -> int:
        return self._size

    def data_ptr(self) -> int:
        return self._address


class FakeTensor:
    """As ``torch.Tensor``."""

    dtype = "torch.uint8"

    def __init__(self, size: int = 1 << 20, *, device: str = "cuda:0", storage: FakeStorage | None = None) -> None:
        self.device = device
        self.shape = (size,)
        self._storage = storage or FakeStorage(size)

    def untyped_storage(self) -> FakeStorage:
        return self._storage


class Box:
    """An object with whatever attributes."""

    def __init__(self, **attributes: Any) -> None:
        self.__dict__.update(attributes)

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...
        def __setattr__(self, name: str, value: Any) -> None: ...
