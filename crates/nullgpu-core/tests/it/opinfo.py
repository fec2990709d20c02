"""Tries every operator of PyTorch's own list (`op_db`) once on the null GPU: its first sample input of float32, or of another
number type where that is not supported, forward and, where it is differentiable, backward.

usage: opinfo.py [SECONDS_PER_OPERATOR]     prints a line for each operator that did not come through, and a summary as JSON

Zeros where values should be make Python errors in some operators ("the algorithm failed to converge"); they are counted and
named. A signal or a hang is a fault of the null GPU: exit status 1.
"""

import collections
import faulthandler
import json
import os
import queue
import subprocess
import sys
import threading
import types


def operators():
    """Name and OpInfo of each operator, in the order of the list."""
    if "expecttest" not in sys.modules:
        try:
            import expecttest  # noqa: F401
        except ImportError:
            # Only a base class of test cases is wanted of it.
            sys.modules["expecttest"] = types.SimpleNamespace(TestCase=object)
    from torch.testing._internal.common_methods_invocations import op_db

    for op in op_db:
        yield op.name + ("." + op.variant_test_name if op.variant_test_name else ""), op


def attempt(op):
    import torch

    supported = op.supported_dtypes("cuda")
    dtype = torch.float32 if torch.float32 in supported else min(supported, key=str, default=None)
    if dtype is None:
        return
    differentiable = op.supports_autograd and dtype.is_floating_point
    sample = next(iter(op.sample_inputs("cuda", dtype, requires_grad=differentiable)))
    result = op(sample.input, *sample.args, **sample.kwargs)
    if differentiable:
        leaves = torch.utils._pytree.tree_leaves(result)
        outputs = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
        if outputs:
            torch.autograd.backward(outputs, [torch.ones_like(output) for output in outputs])
    torch.cuda.synchronize()


def work(first):
    """Tries the operators from the `first` on, saying what it does on the standard output."""
    faulthandler.enable()
    for index, (name, op) in enumerate(operators()):
        if index < first:
            continue
        print(json.dumps({"begin": name, "index": index}), flush=True)
        try:
            attempt(op)
            print(json.dumps({"done": name}), flush=True)
        except Exception as error:  # whatever an operator makes of zeros
            text = f"{type(error).__name__}: {error}".splitlines()[0]
            print(json.dumps({"done": name, "error": text[:200]}), flush=True)
    # Not by way of destructors: what is tried are operators.
    os._exit(0)


def follow(first, patience, results):
    """Runs a worker from the `first` operator on; gives the index to go on with, or nothing at the end."""
    command = [sys.executable, os.path.abspath(__file__), "--work", str(first)]
    worker = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    lines = queue.Queue()
    errors = collections.deque(maxlen=12)

    def read():
        for line in worker.stdout:
            lines.put(line)
        lines.put(None)

    threading.Thread(target=read, daemon=True).start()
    threading.Thread(target=lambda: errors.extend(worker.stderr), daemon=True).start()
    current, index, limit = None, first, 300
    while True:
        try:
            line = lines.get(timeout=limit)
        except queue.Empty:
            worker.kill()
            worker.wait()
            results["crashes"][str(current)] = f"nothing for {limit} s"
            return index + 1
        if line is None:
            status = worker.wait()
            if status == 0:
                return None
            results["crashes"][str(current)] = f"exit status {status}: " + " | ".join(text.strip() for text in errors)
            return index + 1
        if not line.startswith("{"):
            continue
        said = json.loads(line)
        if "begin" in said:
            current, index, limit = said["begin"], said["index"], patience
        elif "error" in said:
            results["errors"][said["done"]] = said["error"]
        else:
            results["ok"] += 1


def main():
    if sys.argv[1:2] == ["--work"]:
        return work(int(sys.argv[2]))
    patience = float(sys.argv[1]) if len(sys.argv) > 1 else 60
    results = {"ok": 0, "errors": {}, "crashes": {}}
    at = 0
    while at is not None and len(results["crashes"]) < 50:
        at = follow(at, patience, results)
    for kind in ("errors", "crashes"):
        for name, text in results[kind].items():
            print(f"{kind[:-1] if kind == 'errors' else 'CRASH'} {name}: {text}")
    print(json.dumps({"ok": results["ok"], "errors": len(results["errors"]), "crashes": sorted(results["crashes"])}))
    return 1 if results["crashes"] else 0


if __name__ == "__main__":
    sys.exit(main())
