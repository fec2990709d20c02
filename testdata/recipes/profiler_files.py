"""What `torch.profiler` writes about one small training run: makes `testdata/profiler/`.

Each run gives a Chrome trace and both forms of the memory timeline, all of the same profile, so that they can be compared. The run on
a GPU is left out where there is none; it gives what `torch.cuda.memory_stats()` said, too.

    python profiler_files.py OUT_DIR [RUN ...]

Directories are cut from the names in the traces; nothing else is changed.
"""

import gzip
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile, record_function


def model_and_optimizer(optimizer):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8))
    return model, optimizer(model.parameters())


def train(model, optimizer, steps):
    for _ in range(steps):
        inputs, targets = torch.randn(16, 32), torch.randint(0, 8, (16,))
        with record_function("loss"):
            loss = torch.nn.functional.cross_entropy(model(inputs), targets)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)


def adam(profiled):
    """A whole run: the optimizer's state comes within the profile, the model was there before."""
    model, optimizer = model_and_optimizer(torch.optim.Adam)
    with profiled(with_stack=True) as prof:
        train(model, optimizer, 3)
    return prof


def warm(profiled):
    """The profile begins in the middle: the optimizer's state is there, and other tensors that are freed in it."""
    model, optimizer = model_and_optimizer(torch.optim.Adam)
    kept = [torch.randn(100, 100) for _ in range(3)]
    train(model, optimizer, 1)
    with profiled(with_stack=True) as prof:
        total = kept[0] + kept[1] + kept[2]
        del kept[:]
        train(model, optimizer, 2)
        del total
    return prof


def inference(profiled):
    """No stacks, no backward: operators only."""
    model, _ = model_and_optimizer(torch.optim.SGD)
    with profiled(with_stack=False) as prof, torch.no_grad():
        for _ in range(3):
            model(torch.randn(16, 32))
    return prof


def cuda(profiled):
    """A step of a small transformer on a GPU, with parameters and optimizer state from before."""
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(64, 4, 128, batch_first=True, device="cuda")
    optimizer = torch.optim.AdamW(layer.parameters())

    def step():
        loss = layer(torch.randn(8, 32, 64, device="cuda")).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    step()
    torch.cuda.reset_peak_memory_stats()
    with profiled(with_stack=True) as prof:
        step()
    return prof


RUNS = {"adam": adam, "warm": warm, "inference": inference}
if torch.cuda.is_available():
    RUNS["cuda"] = cuda


def profiled(with_stack):
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if torch.cuda.is_available() else [])]
    return profile(activities=activities, profile_memory=True, record_shapes=True, with_stack=with_stack)


def without_directories(text):
    """Python functions are named by their files: of those outside of a package the last part is kept."""
    text = re.sub(r'"name": "/[^"(]*?/((?:torch/)?[^/"(]+\()', r'"name": "\1', text)
    text = re.sub(r'"(traceName|trace_id)": "[^"]*"', r'"\1": ""', text)
    return re.sub(r'"ERROR": \["[^"]*"\]', '"ERROR": []', text)


def write(path, text):
    with gzip.GzipFile(path, "wb", mtime=0) as file:
        file.write(text.encode())


def main(out, *names):
    out = Path(out)
    if not names:
        # The CPU's totals go on from one profile of a process to the next.
        for name in RUNS:
            subprocess.run([sys.executable, __file__, out, name], check=True)
    for name in names:
        prof = RUNS[name](profiled)
        with tempfile.TemporaryDirectory() as scratch:
            trace, plain, raw = (Path(scratch) / f for f in ("trace.json", "plain.json.gz", "events.raw.json.gz"))
            prof.export_chrome_trace(str(trace))
            write(out / f"{name}.trace.json.gz", without_directories(trace.read_text()))
            if name == "inference":
                continue
            device = "cpu"
            if name == "cuda":
                device = "cuda:0"
                truth = {"peak": torch.cuda.memory_stats()["allocated_bytes.all.peak"]}
                (out / "cuda.truth.json").write_text(json.dumps(truth) + "\n")
            prof.export_memory_timeline(str(plain), device=device)
            prof.export_memory_timeline(str(raw), device=device)
            for kind, path in (("timeline", plain), ("timeline.raw", raw)):
                text = gzip.decompress(path.read_bytes()).decode()
                json.loads(text)
                write(out / f"{name}.{kind}.json.gz", text)


if __name__ == "__main__":
    main(*sys.argv[1:])
