"""Waits until the program imports a module."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Callable, Sequence
from types import ModuleType


def after(name: str, then: Callable[[ModuleType], None]) -> None:
    """Calls ``then`` with the module as soon as the program has imported it."""
    if name in sys.modules:
        then(sys.modules[name])
    else:
        sys.meta_path.insert(0, _Waiting(name, then))


def refuse(name: str, why: str) -> None:
    """Lets the program find a module, and not import it: whoever can do without it goes on."""

    class Refusing(importlib.abc.Loader):
        def create_module(self, spec: importlib.machinery.ModuleSpec) -> "ModuleType | None":
            raise ImportError(why, name=name)

        def exec_module(self, module: ModuleType) -> None:
            raise ImportError(why, name=name)

    sys.meta_path.insert(0, _Waiting(name, lambda _: None, lambda _: Refusing()))


class _Waiting(importlib.abc.MetaPathFinder):
    def __init__(
        self,
        name: str,
        then: Callable[[ModuleType], None],
        loader: "Callable[[importlib.abc.Loader], importlib.abc.Loader] | None" = None,
    ) -> None:
        self._name = name
        self._then = then
        self._loader = loader or (lambda loader: _Then(loader, self._imported))
        self._looking = False

    def find_spec(
        self, name: str, path: "Sequence[str] | None", target: "ModuleType | None" = None
    ) -> "importlib.machinery.ModuleSpec | None":
        if name != self._name or self._looking:
            return None
        # It stays until the module is imported: a program may only look whether there is one.
        self._looking = True
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self._looking = False
        if spec is not None and spec.loader is not None:
            spec.loader = self._loader(spec.loader)
        return spec

    def _imported(self, module: ModuleType) -> None:
        if self in sys.meta_path:
            sys.meta_path.remove(self)
            self._then(module)


class _Then(importlib.abc.Loader):
    """Loads as another loader does, and says so."""

    def __init__(self, loader: importlib.abc.Loader, then: Callable[[ModuleType], None]) -> None:
        self._loader = loader
        self._then = then

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> "ModuleType | None":
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        module.__loader__ = self._loader
        self._loader.exec_module(module)
        self._then(module)

    def __getattr__(self, name: str) -> object:
        return getattr(self._loader, name)
