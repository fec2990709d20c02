"""Has safetensors write as other libraries do, so that the sandbox sees it.

It renames what it has written by a call to the kernel that no library can stand before.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any


def write_by_python(safetensors: ModuleType) -> None:
    """Replaces ``safetensors.serialize_file``, before the modules for frameworks take it from there."""
    serialize = getattr(safetensors, "serialize", None)
    if serialize is None or not hasattr(safetensors, "serialize_file"):
        return

    def serialize_file(tensor_dict: Any, filename: Any, metadata: "dict[str, str] | None" = None) -> None:
        with open(filename, "wb") as file:
            file.write(serialize(tensor_dict, metadata=metadata))

    safetensors.serialize_file = serialize_file  # type: ignore[attr-defined]
