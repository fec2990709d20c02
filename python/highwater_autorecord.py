"""What every interpreter runs at its start where ``HIGHWATER_RECORD`` is set: it waits for torch, and imports nothing else.

It lies beside the package because importing any module of the package imports all of it. ``highwater_autorecord.pth`` calls :func:`from_environment`.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

VARIABLE = "HIGHWATER_RECORD"


def from_environment() -> None:
    """Records this process as soon as it imports torch. In a virtual environment the start file is read twice: once is enough."""
    target = os.environ.get(VARIABLE, "")
    if not target or any(isinstance(finder, WhenTorchIsImported) for finder in sys.meta_path):
        return
    if "torch" in sys.modules:
        _start(target)
    else:
        sys.meta_path.insert(0, WhenTorchIsImported(target))


def _start(target: str) -> None:
    from highwater import autorecord

    autorecord.start(target)


class WhenTorchIsImported:
    """Waits for the import of torch, lets it happen, and starts the recording."""

    def __init__(self, target: str) -> None:
        self._target = target
        self._looking = False

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The module that others would find, with a loader that starts the recording."""
        if name != "torch" or self._looking:
            return None
        from importlib.util import find_spec

        # It stays after this: a program may only look whether there is a torch, and import it later.
        self._looking = True
        try:
            spec = find_spec(name)
        finally:
            self._looking = False
        if spec is not None and spec.loader is not None:
            spec.loader = _Then(spec.loader, self._target)  # type: ignore[assignment]
        return spec


class _Then:
    """Loads as another loader does, and starts the recording."""

    def __init__(self, loader: object, target: str) -> None:
        self._loader = loader
        self._target = target

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        made: ModuleType | None = self._loader.create_module(spec)  # type: ignore[attr-defined]
        return made

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)  # type: ignore[attr-defined]
        _start(self._target)

    def __getattr__(self, name: str) -> object:
        return getattr(self._loader, name)
