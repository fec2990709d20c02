"""What only a GPU can show: recorded runs against what PyTorch itself counts."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import highwater
import pytest
from test_profiler import check

torch: Any = pytest.importorskip("torch")

pytestmark = pytest.mark.cuda

MIB = 1 << 20


def _train(steps: int = 4) -> tuple[Any, Any]:
    model = torch.nn.Sequential(*(torch.nn.Linear(1024, 1024) for _ in range(4))).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(steps):
        model(torch.randn(512, 1024, device="cuda")).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        highwater.step()
    return model, optimizer


def test_the_report_is_what_memory_stats_says(tmp_path: Path) -> None:
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    with highwater.record(tmp_path / "run.pickle"):
        kept = _train()
        stats = torch.cuda.memory_stats()
    device = highwater.load(tmp_path / "run.pickle").report()["devices"][0]
    for total in ("requested", "allocated", "active", "reserved"):
        assert device["end"][f"{total}_bytes"] == stats[f"{total}_bytes.all.current"], total
        assert device["peak"][f"{total}_bytes"] == stats[f"{total}_bytes.all.peak"], total
    assert device["iterations_by"] == "highwater.step()"
    assert len([row for row in device["iterations"] if row["complete"]]) >= 3
    del kept


def test_a_dict_of_torch_is_read() -> None:
    torch.cuda.memory._record_memory_history()
    kept = torch.ones(MIB, device="cuda")
    snapshot = highwater.load(torch.cuda.memory._snapshot())
    torch.cuda.memory._record_memory_history(None)
    assert kept.data_ptr() in snapshot.live(at="end").column("address").tolist()


def test_tensors_have_their_names(tmp_path: Path) -> None:
    recorder = highwater.record(tmp_path / "run.pickle").start()
    model, optimizer = _train(1)
    with highwater.name_tensors(model, optimizer):
        output = model(torch.randn(512, 1024, device="cuda"))
        recorder.stop()
    rows = highwater.load(tmp_path / "run.pickle").live(at="end").to_dicts()
    named = {row["name"]: row["category"] for row in rows}
    assert named["model.0.weight"] == "parameter"
    assert named["model.0.weight.exp_avg"] == "optimizer_state"
    assert "model.3" in named, "what the last layer gave"
    del output


RUNS_OUT = """
import highwater, torch
torch.cuda.set_per_process_memory_fraction(0.05)
with highwater.record("run.pickle"):
    kept = []
    while True:
        kept.append(torch.ones(64 << 20, device="cuda"))
"""


def test_the_failure_leaves_a_file_an_explanation_and_the_error(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", RUNS_OUT], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    traceback, _, explained = done.stderr.partition("torch.OutOfMemoryError: CUDA out of memory.")
    assert "Traceback" in traceback and "out of memory at entry" in explained
    assert os.listdir(tmp_path) == ["run.pickle"]
    device = highwater.load(tmp_path / "run.pickle").report()["devices"][0]
    assert device["oom"] and device["end"]["allocated_bytes"] > 0


RANK = """
import os, torch
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
kept = torch.ones(1 << 20, device="cuda")
"""


def test_each_rank_of_torchrun_has_a_file(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(RANK)
    launch = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    words = ["-m", "highwater.autorecord", "--record", "ranks/", "train.py"]
    done = subprocess.run([*launch, *words], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    names = [f"rank{rank}.{ending}" for rank in range(2) for ending in ("manifest.json", "pickle")]
    assert sorted(os.listdir(tmp_path / "ranks")) == names


class Node:
    """Keeps a tensor, and itself."""

    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor
        self.me = self


def test_cycles_are_found_and_their_memory_is_free_at_once() -> None:
    reports: list[Any] = []
    gc.collect()
    before = torch.cuda.memory_allocated()
    with highwater.cycles.watch(reports.append, log=False) as watch:
        for _ in range(20):
            Node(torch.empty(MIB, device="cuda"))
            Node(torch.empty(MIB))
        gc.collect()
        assert torch.cuda.memory_allocated() == before
    assert watch.found == 20
    assert sum(report.size_bytes for report in reports) == 80 * MIB
    kept = [tensor for report in reports for cycle in report.cycles for tensor in cycle.tensors]
    assert {(tensor.attribute_path, tensor.device) for tensor in kept} == {("Node.tensor", "cuda:0")}


def test_parameters_on_a_cycle_have_their_way() -> None:
    def hooked() -> None:
        layer = torch.nn.Linear(512, 512).cuda()
        layer.register_forward_hook(lambda *_: layer and None)
        layer(torch.ones(4, 512, device="cuda")).sum().backward()

    gc.collect()
    hooked()
    report = highwater.cycles.find()
    paths = {tensor.attribute_path for cycle in report.cycles for tensor in cycle.tensors}
    assert {"Linear._parameters['weight']", "Linear._parameters['bias']"} <= paths


def test_a_profile_has_the_sums_of_torch(tmp_path: Path) -> None:
    profiler = torch.profiler
    layer = torch.nn.TransformerEncoderLayer(256, 4, 512, batch_first=True, device="cuda")
    optimizer = torch.optim.AdamW(layer.parameters())

    def step() -> None:
        layer(torch.randn(8, 64, 256, device="cuda")).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()

    step()
    torch.cuda.reset_peak_memory_stats()
    activities = [profiler.ProfilerActivity.CPU, profiler.ProfilerActivity.CUDA]
    with profiler.profile(activities=activities, profile_memory=True, record_shapes=True, with_stack=True) as prof:
        step()
        step()
    stats = torch.cuda.memory_stats()
    plain, raw, trace = (tmp_path / name for name in ("t.json.gz", "t.raw.json.gz", "trace.json.gz"))
    prof.export_memory_timeline(str(plain), device="cuda:0")
    prof.export_memory_timeline(str(raw), device="cuda:0")
    prof.export_chrome_trace(str(trace))
    check(plain, raw, trace)
    [device] = highwater.load(trace).report()["devices"]
    assert device["peak"]["allocated_bytes"] == stats["allocated_bytes.all.peak"]
    assert device["end"]["allocated_bytes"] == stats["allocated_bytes.all.current"]


# cuBLAS keeps 65 MiB for its two threads, of the tests before.
@pytest.mark.gpu_memory(peak_allocated="128MiB", growth=0)
def test_a_budget_that_is_kept() -> None:
    assert torch.ones(MIB, device="cuda").sum().item() == MIB


def test_checkpointing_is_recorded_with_its_exceptions(tmp_path: Path) -> None:
    """Recomputation ends by an exception, and a limit inside of it raises what it should."""
    checkpoint = torch.utils.checkpoint.checkpoint
    block = torch.nn.Sequential(torch.nn.Linear(512, 2048), torch.nn.Dropout(0.1), torch.nn.GELU()).cuda()

    def run(x: Any) -> Any:
        for _ in range(3):
            x = checkpoint(block, x, use_reentrant=False)[..., :512]
        return x.square().mean()

    with highwater.record(tmp_path / "run.pickle"):
        for _ in range(4):
            run(torch.randn(256, 512, device="cuda", requires_grad=True)).backward()
            highwater.step()
    assert highwater.load(tmp_path / "run.pickle").report()["devices"][0]["peak"]["allocated_bytes"] > 0

    class Full(RuntimeError):
        pass

    calls = 0

    def failing(x: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls > 1:
            raise Full("in the recomputation")
        return block(x)

    with pytest.raises(Full), highwater.record(tmp_path / "failed.pickle"):
        checkpoint(failing, torch.randn(256, 512, device="cuda", requires_grad=True), use_reentrant=False).sum().backward()


def test_recording_costs_little(tmp_path: Path) -> None:
    """Under 5 % of the step time of a small transformer; the fastest of several turns of each, in turns."""
    layer = torch.nn.TransformerEncoderLayer(768, 12, 3072, batch_first=True)
    model = torch.nn.TransformerEncoder(layer, 6).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    inputs = torch.randn(16, 512, 768, device="cuda")

    def steps(count: int = 20) -> float:
        torch.cuda.synchronize()
        begun = time.perf_counter()
        for _ in range(count):
            model(inputs).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
        torch.cuda.synchronize()
        return (time.perf_counter() - begun) / count

    steps()
    plain, recorded = [], []
    for turn in range(5):
        plain.append(steps())
        with highwater.record(tmp_path / f"{turn}.pickle") as recorder:
            recorded.append(steps())
            recorder.path = tmp_path / "run.pickle"
    print(f"step without recording {min(plain) * 1e3:.2f} ms, with {min(recorded) * 1e3:.2f} ms")
    assert min(recorded) < 1.05 * min(plain)
