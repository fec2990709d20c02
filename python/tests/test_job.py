"""Ranks of a job: names, manifests, and what the others write when one runs out of memory."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import highwater
import pytest
from highwater import _asking, _job, _process
from highwater._asking import Meeting
from highwater._process import ProcessRecorder

TORCHRUN = {"RANK": "9", "WORLD_SIZE": "16", "LOCAL_RANK": "1", "GROUP_WORLD_SIZE": "2", "TORCHELASTIC_RUN_ID": "job7"}
SLURM = {
    "SLURM_PROCID": "3",
    "SLURM_STEP_NUM_TASKS": "8",
    "SLURM_STEP_ID": "0",
    "SLURM_LOCALID": "3",
    "SLURM_JOB_ID": "41",
    "SLURMD_NODENAME": "node7.cluster",
}


@pytest.mark.parametrize(
    ("variables", "rank", "world_size", "launcher"),
    [
        (TORCHRUN, 9, 16, "torchrun"),
        (SLURM, 3, 8, "slurm"),
        ({**SLURM, **TORCHRUN}, 9, 16, "torchrun"),
        ({"JOB_COMPLETION_INDEX": "2"}, 2, None, "kubernetes"),
        ({"JOB_COMPLETION_INDEX": "2", **TORCHRUN}, 9, 16, "torchrun"),
        ({"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2"}, 1, 2, "mpi"),
        # A shell in an allocation is no rank, and neither is a job of one.
        ({"SLURM_PROCID": "0", "SLURM_NTASKS": "8"}, None, None, None),
        ({**SLURM, "SLURM_STEP_NUM_TASKS": "1"}, None, None, None),
        ({"RANK": "no number"}, None, None, None),
        ({}, None, None, None),
    ],
)
def test_launchers_tell_the_place(
    variables: dict[str, str], rank: int | None, world_size: int | None, launcher: str | None
) -> None:
    place = _job.place(variables)
    assert (place.rank, place.world_size, place.launcher) == (rank, world_size, launcher)


def test_files_have_the_host_where_there_are_several() -> None:
    assert _job.place(TORCHRUN).is_on_several_hosts
    assert not _job.place({**TORCHRUN, "GROUP_WORLD_SIZE": "1"}).is_on_several_hosts
    assert _job.place(SLURM).host == "node7"
    assert _process.file_for(Path("job"), True, 9, "node2") == Path("job/rank9.node2.pickle")
    assert _job.host({"SLURMD_NODENAME": "a/b c"}) == "a-b-c"


def test_a_rank_has_a_manifest_beside_its_recording_and_in_it(
    torch: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {**TORCHRUN, "GROUP_WORLD_SIZE": "1", "NCCL_DEBUG": "WARN"}.items():
        monkeypatch.setenv(name, value)
    with ProcessRecorder(f"{tmp_path}/", max_entries=1000, stacks="python"):
        pass
    assert sorted(path.name for path in tmp_path.iterdir()) == ["rank9.manifest.json", "rank9.pickle"]
    manifest = json.loads((tmp_path / "rank9.manifest.json").read_text())
    # The Rust tests hold this file to the schema of `highwater-manifest`.
    stored = json.loads((Path(__file__).parents[2] / "testdata/recorder/rank9.manifest.json").read_text())
    of_the_machine = {"host", "pid", "started_us", "torch", "highwater", "python"}
    assert manifest == {name: manifest[name] if name in of_the_machine else value for name, value in stored.items()}
    assert highwater.load(tmp_path / "rank9.pickle").report()["warnings"] == []
    answer = highwater.ranks(tmp_path)
    assert (answer["ranks"][0]["rank"], answer["world_size"]) == (9, 16)
    assert answer["unread"][0]["file"] == "ranks 0–8, 10–15"


def _meetings(folder: Path, count: int) -> list[Meeting]:
    return [Meeting(folder, "run/1", rank, count) for rank in range(count)]


def test_the_others_answer_when_one_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_asking, "LOOK_SECONDS", 0.01)
    answered = [threading.Event() for _ in range(3)]
    meetings = _meetings(tmp_path, 3)
    for meeting, event in zip(meetings, answered, strict=True):
        meeting.begin(event.set)
    meetings[1].ask()
    meetings[1].wait()
    assert [event.is_set() for event in answered] == [True, False, True]
    for meeting in meetings:
        meeting.end()
    assert list(tmp_path.iterdir()) == []


def test_a_rank_that_cannot_answer_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_asking, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(_asking, "BEGIN_SECONDS", 0.05)
    monkeypatch.setattr(_asking, "END_SECONDS", 1.0)
    alone, other = _meetings(tmp_path, 2)
    alone.begin(lambda: None)
    alone.ask()
    alone.wait()

    def fails() -> None:
        raise OSError("disk full")

    other.begin(fails)
    alone.ask()
    alone.wait()
    alone.end()
    other.end()


def test_questions_of_an_earlier_run_are_not_answered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_asking, "LOOK_SECONDS", 0.01)
    meeting = _meetings(tmp_path, 1)[0]
    meeting.folder.mkdir()
    (meeting.folder / "0-dead.failed").touch()
    answered = threading.Event()
    meeting.begin(answered.set)
    meeting._watch_once()
    assert not answered.is_set()
    meeting.end()
