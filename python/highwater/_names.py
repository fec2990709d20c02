"""Names of tensors: the dotted ones of a model, put into the recording."""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import Any

from highwater import _torch
from highwater._notice import notice

_named: list[NamedTensors] = []


class NamedTensors:
    """The names of a model's tensors, until :meth:`remove` or the end of the ``with`` block."""

    def __init__(self, model: Any, optimizer: Any, prefix: str) -> None:
        self._model = model
        self._optimizer = optimizer
        self._prefix = prefix
        self._hooks: list[Any] = []
        self._inside: list[str] = []
        set_metadata = _torch.metadata_setter()
        if set_metadata is None:
            notice("this torch cannot label allocations: activations have no names (torch 2.10 and newer can)")
        else:
            self._hook_modules(set_metadata)
        _named.append(self)

    def remove(self) -> None:
        """Ends the naming, and takes the hooks off the model."""
        if self in _named:
            _named.remove(self)
        for hook in self._hooks:
            hook.remove()
        self._hooks.clear()

    def tensors(self) -> Iterator[tuple[str, str, Any]]:
        """Name, category and tensor of all that the model and the optimizer hold now."""
        names: dict[Any, str] = {}
        for dotted, parameter in self._model.named_parameters():
            name = names[parameter] = self._dotted(dotted)
            yield name, "parameter", parameter
            if parameter.grad is not None:
                yield f"{name}.grad", "gradient", parameter.grad
        for dotted, buffer in self._model.named_buffers():
            yield self._dotted(dotted), "parameter", buffer
        state = {} if self._optimizer is None else self._optimizer.state
        for parameter, values in state.items():
            owner = names.get(parameter, "optimizer")
            for key, value in values.items():
                if hasattr(value, "untyped_storage"):
                    yield f"{owner}.{key}", "optimizer_state", value

    def _hook_modules(self, set_metadata: Any) -> None:
        """Labels the allocations of a module's forward pass with the module's name."""

        def enters(name: str) -> Any:
            def hook(*_: Any) -> None:
                self._inside.append(name)
                set_metadata(name)

            return hook

        def leaves(*_: Any) -> None:
            if self._inside:
                self._inside.pop()
            set_metadata(self._inside[-1] if self._inside else "")

        for dotted, module in self._model.named_modules():
            self._hooks.append(module.register_forward_pre_hook(enters(self._dotted(dotted))))
            # Also where the module raises, as an out-of-memory error does.
            self._hooks.append(module.register_forward_hook(leaves, always_call=True))

    def _dotted(self, name: str) -> str:
        return f"{self._prefix}.{name}" if name else self._prefix

    def __enter__(self) -> NamedTensors:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.remove()


def name_tensors(model: Any, optimizer: Any = None, *, prefix: str = "model") -> NamedTensors:
    """Labels the model's tensors in the recording with their dotted names.

    At each dump, parameters, buffers, gradients (``….grad``) and the optimizer's state (``….exp_avg``) get their names and their
    category. Allocations of a module's forward pass carry the module's name. Without CUDA this does nothing.
    """
    return NamedTensors(model, optimizer, prefix)


def put_names(snapshot: Any) -> None:
    """Writes the names into a snapshot: at the entry that allocated each tensor."""
    by_device: dict[int, dict[int, tuple[str, str]]] = {}
    for named in list(_named):
        for name, category, tensor in named.tensors():
            if tensor.is_cuda:
                device = by_device.setdefault(tensor.device.index, {})
                device.setdefault(tensor.untyped_storage().data_ptr(), (name, category))
    traces = snapshot.get("device_traces", [])
    for index, names in by_device.items():
        for entry in reversed(traces[index] if index < len(traces) else []):
            if not names:
                break
            # The newest of an address is the one that still has it.
            if entry.get("action") == "alloc" and entry.get("addr") in names:
                entry["user_metadata"], entry["category"] = names.pop(entry["addr"])
