"""Every operator of PyTorch's own list, forward and backward, on the imagined GPU: none fails that runs on the CPU, and results have its sizes.

Every `STEP`-th operator from `FIRST` on is tried.
"""

import sys
import types
import unittest
import warnings

import torch

warnings.filterwarnings("ignore")
# PyTorch's list of operators asks for a package of its tests, and uses nothing of it.
sys.modules["expecttest"] = types.ModuleType("expecttest")
sys.modules["expecttest"].TestCase = unittest.TestCase

from torch.testing._internal.common_methods_invocations import op_db  # noqa: E402

DIFFERENT = {
    "as_strided": "the sample is a view, of which a copy has less",
    "index_fill": "the sample has no index",
    "_native_batch_norm_legit": "GPUs keep statistics",
    "linalg.eig": "the host computes it, of values that nobody knows",
    "linalg.eigvals": "the host computes it, of values that nobody knows",
    "linalg.lstsq": "GPUs have one driver",
    "native_batch_norm": "GPUs keep statistics",
    "sparse.mm": "GPUs have no such kernel",
    "tensor_split": "sections must lie on the host",
}


def moved(value, device):
    """A copy on a device."""
    if isinstance(value, torch.Tensor):
        return value.detach().to(device).requires_grad_(value.requires_grad)
    if isinstance(value, (list, tuple)):
        return type(value)(moved(one, device) for one in value)
    if isinstance(value, dict):
        return {name: moved(one, device) for name, one in value.items()}
    return device if isinstance(value, (str, torch.device)) and str(value) == "cpu" else value


def tensors(value):
    if isinstance(value, torch.Tensor):
        return [value]
    return [tensor for one in value for tensor in tensors(one)] if isinstance(value, (list, tuple)) else []


def sizes(operator, sample, device):
    """Of the results, and of the gradients of their sum."""
    given, more, named = (moved(part, device) for part in (sample.input, sample.args, sample.kwargs))
    results = tensors(operator(given, *more, **named))
    followed = [result for result in results if result.requires_grad]
    if followed:
        sum(result.sum().abs() for result in followed).backward()
    gradients = [tensor.grad.shape for tensor in [*tensors(given), *tensors(more)] if tensor.grad is not None]
    return [result.shape for result in results], gradients


tried, wrong = 0, []
for operator in op_db[FIRST::STEP]:  # noqa: F821
    supported = operator.supports_dtype(torch.float32, "cpu") and operator.supports_dtype(torch.float32, "cuda")
    if operator.name in DIFFERENT or not supported:
        continue
    try:
        samples = list(operator.sample_inputs("cpu", torch.float32, requires_grad=operator.supports_autograd))[:3]
    except Exception:
        continue
    for sample in samples:
        try:
            expected = sizes(operator, sample, "cpu")
        except Exception:
            # What the host cannot do is not asked of a GPU.
            continue
        tried += 1
        try:
            found = sizes(operator, sample, "cuda")
        except Exception as error:
            wrong.append(f"{operator.name}: {type(error).__name__}: {error}")
        else:
            wrong += [f"{operator.name}: {found}, not {expected}"] if found != expected else []
assert not wrong, "\n".join(wrong)
assert tried > 100, tried
