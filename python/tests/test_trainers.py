"""The programs of docs/integrations do what these pages say: as text always, with the real trainers where they are installed."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import highwater
import pytest

ROOT = Path(__file__).parents[2]
PROGRAMS = ROOT / "examples" / "trainers"
# The program, what it needs, what it leaves, the page that shows it, and the iterations that it makes.
TRAINERS = [
    ("with_lightning.py", "lightning", "lightning.pickle", "lightning.md", 5),
    ("with_transformers.py", "transformers", "transformers.pickle", "transformers.md", 5),
    ("with_accelerate.py", "accelerate", "accelerate.pickle", "launchers.md", 5),
]
PAGES = [(program, page) for program, _, _, page, _ in TRAINERS]
PAGES += [("with_ray_train.py", "launchers.md"), ("with_tensorboard.py", "trackers.md"), ("with_wandb.py", "trackers.md")]


@pytest.mark.parametrize("program, page", PAGES)
def test_the_page_shows_the_program(program: str, page: str) -> None:
    shown = (PROGRAMS / program).read_text().split("# On the page:\n")[1]
    assert f"```python\n{shown}```" in (ROOT / "docs" / "integrations" / page).read_text()


@pytest.mark.parametrize("program, library, recording, _page, iterations", TRAINERS)
def test_a_real_trainer_is_recorded(
    tmp_path: Path, program: str, library: str, recording: str, _page: str, iterations: int
) -> None:
    # Looked for, not imported: without NVIDIA's libraries, only a dry run can import it.
    for module in ("torch", library):
        if find_spec(module) is None:
            pytest.skip(f"{module} is not installed")
    command = [sys.executable, "-m", "highwater", "dryrun", "--gpu", "h100", "-o", "dry.pickle", str(PROGRAMS / program)]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    for name in (recording, "dry.pickle"):
        report = highwater.load(tmp_path / name).report()["devices"][0]
        assert len(report["iterations"]) >= iterations, (name, report["iterations_by"])
        assert report["at_peak"] and report["peak"]["allocated_bytes"] > 0


def test_a_worker_of_ray_is_recorded(tmp_path: Path) -> None:
    # Ray kills its workers: what is written at the end of a process would be missing.
    for module in ("torch", "ray"):
        if find_spec(module) is None:
            pytest.skip(f"{module} is not installed")
    built = ROOT / "target/debug"
    torch = next(Path(place) for place in sys.path if (Path(place) / "torch/version.py").exists())
    nullrun = built / "examples/nullrun"
    if not nullrun.exists():
        pytest.skip("the null GPU is not built")
    null_gpu = [nullrun, torch, built / "libhighwater_nullgpu_core.so", tmp_path / "stubs", "H100"]
    command = [*map(str, null_gpu), sys.executable, str(PROGRAMS / "with_ray_train.py")]
    (tmp_path / "stubs").mkdir()
    variables = os.environ | {"RAY_OVERRIDE_RESOURCES": '{"CPU": 4, "GPU": 1}', "HOME": str(tmp_path)}
    ended = subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, text=True, timeout=600)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    report = highwater.load(tmp_path / "rank0.pickle").report()["devices"][0]
    assert len(report["iterations"]) == 5 and report["peak"]["allocated_bytes"] > 0


def test_the_curve_is_in_tensorboards_own_file(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    file = ROOT / "testdata/recordings/qwen_train_b2.pickle.gz"
    command = [sys.executable, str(PROGRAMS / "with_tensorboard.py"), str(file)]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, timeout=600)
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(tmp_path / "runs/memory"))
    events.Reload()
    peaks = [one.value for one in events.Scalars("memory/peak_allocated_bytes")]
    iterations = highwater.load(file).report()["devices"][0]["iterations"]
    assert peaks == pytest.approx([one["peak_allocated_bytes"] for one in iterations])


def test_the_page_and_the_curve_are_in_a_run_without_an_account(tmp_path: Path) -> None:
    if find_spec("wandb") is None:
        pytest.skip("wandb is not installed")
    command = [sys.executable, str(PROGRAMS / "with_wandb.py"), str(ROOT / "testdata/recordings/qwen_train_b2.pickle.gz")]
    variables = os.environ | {"WANDB_MODE": "offline", "WANDB_DIR": str(tmp_path), "WANDB_DATA_DIR": str(tmp_path), "WANDB_SILENT": "true"}
    subprocess.run(command, cwd=tmp_path, env=variables, check=True, capture_output=True, timeout=600)
    [run] = (tmp_path / "wandb").glob("offline-run-*/*.wandb")
    kept = run.read_bytes()
    assert b"memory/peak_allocated_bytes" in kept and b"run.html" in kept


def test_the_trainers_of_the_pages_are_all_of_the_package() -> None:
    modules = {path.stem for path in (ROOT / "python/highwater/integrations").glob("[a-z]*.py")}
    assert modules == {"lightning", "transformers"}
    assert all(find_spec(f"highwater.integrations.{module}") for module in modules)
