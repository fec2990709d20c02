"""What others run: the action for GitHub, the hook for pre-commit, the prologs for SLURM, and the names that torchtitan gives its snapshots."""

from __future__ import annotations

import gzip
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import highwater
import pytest
from conftest import recording

ROOT = Path(__file__).parents[2]


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """A `highwater` as pip would install it."""
    path = tmp_path / "runner/highwater/bin/highwater"
    path.parent.mkdir(parents=True)
    path.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m highwater "$@"\n')
    path.chmod(0o755)
    return path


def shell(script: str, directory: Path, **variables: object) -> subprocess.CompletedProcess[str]:
    """A script as a runner of GitHub's runs it."""
    environment = os.environ | {name: str(value) for name, value in variables.items()}
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script]
    return subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True, timeout=300)


@pytest.fixture
def steps() -> list[Any]:
    """The steps of the action."""
    yaml = pytest.importorskip("ruamel.yaml")
    return yaml.YAML(typ="safe").load(ROOT / "action.yml")["runs"]["steps"]  # type: ignore[no-any-return]


@pytest.mark.parametrize("limit, passes", [("16GiB", "true"), ("1MiB", "false")])
def test_the_action_checks_and_comments(tmp_path: Path, program: Path, steps: list[Any], limit: str, passes: str) -> None:
    _, check, comment, verdict = steps
    files = {"GITHUB_OUTPUT": tmp_path / "output", "GITHUB_STEP_SUMMARY": tmp_path / "summary", "RUNNER_TEMP": tmp_path / "runner"}
    # A name that a shell would take for more than one word.
    (tmp_path / "a run.pickle.gz").write_bytes(recording("linear_forward").read_bytes())
    inputs = {"RECORDING": "a run.pickle.gz", "BASELINE": "", "TOLERANCE": "", "OPTIONS": f"--max-peak-reserved={limit}\n"}
    ended = shell(check["run"], tmp_path, **files, **inputs)
    assert ended.returncode == 0, ended.stderr
    assert files["GITHUB_OUTPUT"].read_text() == f"passed={passes}\n"
    assert ("::error" in ended.stdout) == (passes == "false")
    summary = files["GITHUB_STEP_SUMMARY"].read_text()
    assert "max-peak-reserved" in summary and str(tmp_path) not in summary

    gh = tmp_path / "bin/gh"
    gh.parent.mkdir()
    gh.write_text('#!/bin/sh\necho "$@" > called; cat "$7" > body\n')
    gh.chmod(0o755)
    ended = shell(comment["run"], tmp_path, **files, NUMBER=7, PATH=f"{gh.parent}:{os.environ['PATH']}")
    assert ended.returncode == 0, ended.stderr
    assert (tmp_path / "called").read_text().startswith("pr comment 7 --edit-last --create-if-none --body-file ")
    assert (tmp_path / "body").read_text() == summary
    assert verdict["if"] == "steps.check.outputs.passed == 'false'" and verdict["run"] == "exit 1"


def test_the_action_fails_on_a_file_that_is_no_recording(tmp_path: Path, program: Path, steps: list[Any]) -> None:
    (tmp_path / "run.pickle").write_bytes(b"nothing")
    files = {"GITHUB_OUTPUT": tmp_path / "output", "GITHUB_STEP_SUMMARY": tmp_path / "summary", "RUNNER_TEMP": tmp_path / "runner"}
    ended = shell(steps[1]["run"], tmp_path, **files, RECORDING="run.pickle", BASELINE="", TOLERANCE="", OPTIONS="--max-peak-reserved=1GiB")
    assert ended.returncode == 2 and "run.pickle" in ended.stderr


def test_the_hook_checks_each_file(tmp_path: Path, program: Path) -> None:
    yaml = pytest.importorskip("ruamel.yaml")
    [hook] = yaml.YAML(typ="safe").load(ROOT / ".pre-commit-hooks.yaml")
    for name in ("one.pickle.gz", "two.pickle.gz"):
        (tmp_path / name).write_bytes(recording("linear_forward").read_bytes())
    variables = os.environ | {"PATH": f"{program.parent}:{os.environ['PATH']}"}
    command = [*shlex.split(hook["entry"]), "one.pickle.gz", "two.pickle.gz"]
    for limit, status in [("16GiB", 0), ("1MiB", 1)]:
        (tmp_path / "highwater.toml").write_text(f'[budget]\nmax_peak_reserved = "{limit}"\n')
        ended = subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, text=True, timeout=300)
        assert ended.returncode == status, ended.stdout + ended.stderr
        assert ended.stdout.count("max-peak-reserved") == 2


def slurm(script: str, directory: Path, program: Path, **variables: object) -> subprocess.CompletedProcess[str]:
    own = {"HIGHWATER_PROGRAM": program, "HIGHWATER_LOG": directory / "log/prolog.log"} | variables
    environment = os.environ | {name: str(value) for name, value in own.items()}
    command = ["sh", str(ROOT / "examples/slurm" / script)]
    return subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True, timeout=300)


def test_a_node_whose_driver_does_not_answer_takes_no_job(tmp_path: Path, program: Path) -> None:
    variables = {"HIGHWATER_NVML": tmp_path / "none.so"}
    assert slurm("prolog.sh", tmp_path, program, **variables).returncode == 0, "a job without a GPU"
    ended = slurm("prolog.sh", tmp_path, program, SLURM_JOB_GPUS="0", **variables)
    assert ended.returncode == 1 and ended.stdout.startswith("print highwater: this node's GPUs do not answer")
    assert (tmp_path / "log/prolog.log").read_text()
    assert slurm("prolog.sh", tmp_path, tmp_path / "nowhere", SLURM_JOB_GPUS="0").returncode == 0, "without highwater"


def test_a_job_that_asks_for_it_records_itself(tmp_path: Path, program: Path) -> None:
    variables = {"SLURM_SUBMIT_DIR": tmp_path, "SLURM_JOB_ID": 4711}
    assert slurm("task_prolog.sh", tmp_path, program, **variables).stdout == ""
    said = slurm("task_prolog.sh", tmp_path, program, HIGHWATER=1, **variables).stdout.splitlines()
    assert said[0] == f"export HIGHWATER_RECORD={tmp_path}/highwater-4711/"
    assert (tmp_path / "highwater-4711").is_dir() and all(line.startswith("print ") for line in said[1:])


def test_a_failed_job_has_an_explanation_beside_its_log(tmp_path: Path, program: Path) -> None:
    failed, ended = tmp_path / "failed.err", tmp_path / "ended.err"
    failed.write_bytes((ROOT / "testdata/messages/slurm_label.log").read_bytes())
    ended.write_text("epoch 1\n")
    for log in (failed, ended):
        assert slurm("epilog.sh", tmp_path, program, SLURM_JOB_STDERR=log).returncode == 0
    assert "out of memory" in Path(f"{failed}.highwater.txt").read_text()
    assert not Path(f"{ended}.highwater.txt").exists()


def test_the_names_that_torchtitan_gives_are_ranks(tmp_path: Path) -> None:
    # torchtitan/tools/profiling.py: a directory for each dump, in it a file for each rank.
    for step, name in [("iteration_10", "linear_forward"), ("iteration_20_exit", "oom_gpt2_8gib")]:
        (tmp_path / step).mkdir()
        for rank in range(2):
            data = gzip.decompress(recording(name).read_bytes())
            (tmp_path / step / f"rank{rank}_memory_snapshot.pickle").write_bytes(data)
    answer = highwater.ranks(tmp_path / "iteration_10")
    assert [one["rank"] for one in answer["ranks"]] == [0, 1]
    # Of several dumps, one of each rank is compared, and the others are listed.
    answer = highwater.ranks(tmp_path)
    assert [one["rank"] for one in answer["ranks"]] == [0, 1] and len(answer["unread"]) == 2
