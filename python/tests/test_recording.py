"""Recording, with a torch that is made up: what is asked of it, what is written, and what goes wrong."""

from __future__ import annotations

import errno
import gc
import json
import os
import pickle
import shutil
import subprocess
import sys
import types
import venv
from pathlib import Path
from typing import Any

import highwater
import pytest
from conftest import unpickled
from fake_torch import FakeTorch
from highwater import _oom, _process, _torch, _write


def test_a_block_is_recorded(torch: FakeTorch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "deep" / "run.pickle"
    with highwater.record(path, max_entries=500, stacks="all") as recorder:
        assert torch.enabled
        assert "recording" in repr(recorder)
    assert not torch.enabled
    assert torch.calls[0] == {"enabled": "all", "context": "alloc", "stacks": "all", "max_entries": 500}
    assert highwater.load(path).report()["devices"]
    assert pickle.loads(path.read_bytes()) == torch.snapshot_dict
    assert capsys.readouterr().err == f"highwater: wrote {path}\n"
    assert os.listdir(path.parent) == ["run.pickle"]


def test_stacks_of_frees_are_recorded_if_they_are_asked_for(torch: FakeTorch, tmp_path: Path) -> None:
    for frees, context in ((False, "alloc"), (True, "all")):
        with highwater.record(tmp_path / "run.pickle", frees=frees):
            assert torch.calls[-1]["context"] == context
    with highwater.record(tmp_path / "run.pickle", stacks=None, frees=True):
        assert torch.calls[-1]["context"] is None


def test_a_function_is_recorded_each_time(torch: FakeTorch, tmp_path: Path) -> None:
    @highwater.record(tmp_path / "run.pickle")
    def train(depth: int) -> int:
        """Trains."""
        assert torch.enabled
        return train(depth - 1) + 1 if depth else 0

    assert train(2) == 2
    assert train.__doc__ == "Trains."
    assert not torch.enabled
    assert (tmp_path / "run.pickle").exists()


def test_start_and_stop(torch: FakeTorch, tmp_path: Path) -> None:
    recorder = highwater.record(tmp_path / "run.pickle")
    assert recorder.stop() is None
    recorder.start()
    with pytest.raises(RuntimeError, match="already recording"):
        recorder.start()
    assert recorder.dump(tmp_path / "middle.pickle") == tmp_path / "middle.pickle"
    assert torch.enabled
    assert recorder.stop() == tmp_path / "run.pickle"
    assert recorder.stop() is None
    recorder.start()
    assert recorder.stop() == tmp_path / "run.pickle"


def test_recording_waits_for_cuda(torch: FakeTorch, tmp_path: Path) -> None:
    torch.is_initialized = False
    with highwater.record(tmp_path / "run.pickle") as recorder:
        assert not torch.enabled and "waiting for CUDA" in repr(recorder)
        torch.initialize()
        assert torch.enabled
    assert (tmp_path / "run.pickle").exists()


def test_a_recorder_that_ended_does_not_begin_late(torch: FakeTorch, tmp_path: Path) -> None:
    torch.is_initialized = False
    with highwater.record(tmp_path / "run.pickle"):
        pass
    torch.initialize()
    assert not torch.enabled and not os.listdir(tmp_path)


@pytest.mark.parametrize("inner_first", [True, False])
def test_nested_recorders_share_the_history(torch: FakeTorch, tmp_path: Path, inner_first: bool) -> None:
    outer = highwater.record(tmp_path / "outer.pickle").start()
    inner = highwater.record(tmp_path / "inner.pickle").start()
    assert len(torch.calls) == 1
    first, second = (inner, outer) if inner_first else (outer, inner)
    first.stop()
    assert torch.enabled, "the other one still needs it"
    second.stop()
    assert not torch.enabled
    assert sorted(os.listdir(tmp_path)) == ["inner.pickle", "outer.pickle"]


def test_a_history_that_the_program_keeps_stays(torch: FakeTorch, tmp_path: Path) -> None:
    torch.enabled = True
    with highwater.record(tmp_path / "run.pickle"):
        pass
    assert torch.enabled and not torch.calls


@pytest.mark.parametrize("error", [KeyboardInterrupt(), ValueError("mine"), SystemExit(3)])
def test_what_ends_the_block_goes_on(torch: FakeTorch, tmp_path: Path, error: BaseException) -> None:
    with pytest.raises(type(error)) as caught, highwater.record(tmp_path / "run.pickle"):
        raise error
    assert caught.value is error
    assert highwater.load(tmp_path / "run.pickle").devices == [0]
    assert not torch.enabled


# Memory runs out.


def test_the_failure_is_kept_explained_and_raised(
    torch: FakeTorch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "run.pickle"
    torch.snapshot_dict = unpickled("oom_gpt2_8gib")
    with pytest.raises(FakeTorch.OutOfMemoryError) as caught, highwater.record(path):
        try:
            torch.fail()
        finally:
            # What is dumped later is not the failure's state.
            torch.snapshot_dict = unpickled("linear_forward")
    assert str(caught.value) == "CUDA out of memory. Tried to allocate 2.00 GiB."
    assert not getattr(caught.value, "__notes__", [])
    assert os.listdir(tmp_path) == ["run.pickle"]
    assert highwater.load(path).report()["devices"][0]["oom"]
    capsys.readouterr()
    sys.excepthook(type(caught.value), caught.value, None)
    said = capsys.readouterr().err
    traceback, _, explained = said.partition("FakeTorch.OutOfMemoryError: CUDA out of memory")
    assert traceback.startswith("Traceback")
    assert "highwater: run.pickle, device 0: out of memory at entry 590" in explained


def test_a_notebook_is_told_at_once(torch: FakeTorch, tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    """It prints tracebacks by itself."""
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=object))
    torch.snapshot_dict = unpickled("oom_gpt2_8gib")
    with pytest.raises(FakeTorch.OutOfMemoryError), highwater.record(tmp_path / "run.pickle"):
        torch.fail()
    assert "out of memory at entry 590" in capsys.readouterr().err


def test_other_errors_are_not_explained(
    torch: FakeTorch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with highwater.record(tmp_path / "run.pickle"):
        with pytest.raises(FakeTorch.OutOfMemoryError):
            torch.fail()
    capsys.readouterr()
    sys.excepthook(ValueError, ValueError("mine"), None)
    assert capsys.readouterr().err == "ValueError: mine\n"


def test_a_failure_that_the_program_survives_has_a_file_of_its_own(torch: FakeTorch, tmp_path: Path) -> None:
    with highwater.record(tmp_path / "run.pickle"):
        for _ in range(5):
            with pytest.raises(FakeTorch.OutOfMemoryError):
                torch.fail()
    assert sorted(os.listdir(tmp_path)) == ["run.oom.pickle", "run.pickle"]


def test_a_failure_is_written_three_times_at_most(torch: FakeTorch, tmp_path: Path, monkeypatch: Any) -> None:
    written: list[Path] = []

    def note(path: Path, _: object) -> Path:
        written.append(path)
        return path

    monkeypatch.setattr("highwater._record.write_snapshot", note)
    with highwater.record(tmp_path / "run.pickle"):
        for _ in range(10):
            with pytest.raises(FakeTorch.OutOfMemoryError):
                torch.fail()
    assert [path.name for path in written] == ["run.oom.pickle"] * 3 + ["run.pickle"]


def test_without_on_oom_nobody_watches(torch: FakeTorch, tmp_path: Path) -> None:
    with highwater.record(tmp_path / "run.pickle", on_oom=False):
        pass
    assert not torch.observers


def test_nothing_comes_out_of_the_observer(torch: FakeTorch, tmp_path: Path, monkeypatch: Any) -> None:
    def fails(*_: object) -> None:
        raise AssertionError("a bug")

    monkeypatch.setattr(highwater.Recorder, "_write", fails)
    recorder = highwater.record(tmp_path / "run.pickle").start()
    with pytest.raises(FakeTorch.OutOfMemoryError):
        torch.fail()
    _oom.forget(recorder._failed)


def test_ctrl_c_amid_a_failure_comes_after_it(torch: FakeTorch, tmp_path: Path, monkeypatch: Any) -> None:
    interrupted: list[bool] = []
    monkeypatch.setattr("_thread.interrupt_main", lambda: interrupted.append(True))

    def interrupts() -> None:
        raise KeyboardInterrupt

    _oom.observe(interrupts)
    with pytest.raises(FakeTorch.OutOfMemoryError):
        torch.fail()
    assert interrupted == [True]


# What goes wrong.


def test_a_full_disk_ends_nothing(
    torch: FakeTorch, tmp_path: Path, monkeypatch: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    ran = False
    with highwater.record(tmp_path / "run.pickle"):
        ran = True
    assert ran and not os.listdir(tmp_path)
    assert "cannot be written, the program continues: No space left on device" in capsys.readouterr().err


def test_where_only_little_room_is_left_it_is_packed(torch: FakeTorch, tmp_path: Path, monkeypatch: Any) -> None:
    room, sync = 40_000, os.fsync
    torch.snapshot_dict = unpickled("leak_grows")
    assert len(pickle.dumps(torch.snapshot_dict)) > room

    def limited(number: int) -> None:
        if os.fstat(number).st_size > room:
            raise OSError(errno.ENOSPC, "No space left on device")
        sync(number)

    monkeypatch.setattr("os.fsync", limited)
    with highwater.record(tmp_path / "run.pickle"):
        pass
    assert os.listdir(tmp_path) == ["run.pickle.gz"]
    assert highwater.load(tmp_path / "run.pickle.gz").report()["devices"][0]["entries"]


def test_what_was_there_stays_until_all_is_written(tmp_path: Path) -> None:
    path = tmp_path / "run.pickle"
    path.write_bytes(b"old")

    def interrupted(file: Any) -> None:
        file.write(b"half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        _write.write_atomically(path, interrupted)
    assert path.read_bytes() == b"old" and os.listdir(tmp_path) == ["run.pickle"]

    def whole(file: Any) -> None:
        file.write(b"new")

    _write.write_atomically(path, whole)
    assert path.read_bytes() == b"new"
    plain = tmp_path / "plain"
    plain.touch()
    assert path.stat().st_mode == plain.stat().st_mode


def test_no_other_threads_file_is_closed_to_others_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def asked(mask: int) -> int:
        raise AssertionError("the umask is the whole process's")

    monkeypatch.setattr(os, "umask", asked)
    _write.write_atomically(tmp_path / "run.pickle", lambda file: None)


def test_a_path_that_cannot_be_written_ends_nothing(
    torch: FakeTorch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("no directory")
    with highwater.record(tmp_path / "file" / "run.pickle") as recorder:
        pass
    assert recorder.stop() is None
    assert "cannot be written, the program continues" in capsys.readouterr().err


def test_where_the_host_is_short_of_memory_the_state_is_kept(
    torch: FakeTorch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def short() -> Any:
        raise MemoryError

    torch.cuda.memory._snapshot = short
    with highwater.record(tmp_path / "run.pickle"):
        pass
    snapshot = highwater.load(tmp_path / "run.pickle")
    assert snapshot.timeline().num_rows == 0 and snapshot.live(at="end").num_rows > 0
    assert "too little memory for the history" in capsys.readouterr().err


def test_a_torch_without_cuda_says_so_and_trains(
    torch: FakeTorch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    torch.version = types.SimpleNamespace(cuda=None, hip=None)
    for _ in range(2):
        with highwater.record(tmp_path / "run.pickle"):
            highwater.step()
            with highwater.phase("forward"):
                pass
    assert not os.listdir(tmp_path) and not torch.calls
    assert capsys.readouterr().err == "highwater: torch 2.11.0 is built without CUDA: nothing is recorded\n"


def test_a_machine_without_a_gpu_says_so(
    torch: FakeTorch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    torch.devices = 0
    with highwater.record(tmp_path / "run.pickle"):
        pass
    assert "torch finds no GPU: nothing is recorded" in capsys.readouterr().err


def test_no_torch_at_all(monkeypatch: Any, torch: FakeTorch, tmp_path: Path, capsys: Any) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with highwater.record(tmp_path / "run.pickle"):
        pass
    assert "torch is not installed: nothing is recorded" in capsys.readouterr().err


def test_the_drivers_own_allocator_leaves_totals(torch: FakeTorch, tmp_path: Path, capsys: Any) -> None:
    torch.backend = "cudaMallocAsync"
    with highwater.record(tmp_path / "run.pickle"):
        highwater.step()
    assert not torch.calls
    document = json.loads((tmp_path / "run.totals.json").read_text())
    for mark in document["marks"]:
        mark["time_us"] = 1_700_000_000_000_000
    # The Rust tests hold this file to the schema of `highwater-totals`.
    stored = Path(__file__).parents[2] / "testdata/recorder/run.totals.json"
    assert document == json.loads(stored.read_text())
    assert "keeps no history of `backend:cudaMallocAsync`" in capsys.readouterr().err


def test_an_older_torch_is_asked_for_what_it_knows(torch: FakeTorch, tmp_path: Path, capsys: Any) -> None:
    asked: list[dict[str, Any]] = []

    def older(enabled: str | None = "all", context: Any = "all", stacks: str = "all", max_entries: int = 1) -> None:
        asked.append(dict(locals()))

    torch.cuda.memory._record_memory_history = older
    with highwater.record(tmp_path / "run.pickle"):
        pass
    assert [call["enabled"] for call in asked] == ["all", None]
    assert "this torch does not record annotations" in capsys.readouterr().err


def test_torch_2_0_is_asked_in_its_own_words(torch: FakeTorch, tmp_path: Path) -> None:
    asked: list[tuple[bool, int, bool]] = []

    def legacy(
        enabled: bool,
        record_context: bool = True,
        trace_alloc_max_entries: int = 1,
        trace_alloc_record_context: bool = False,
    ) -> None:
        asked.append((enabled, trace_alloc_max_entries, trace_alloc_record_context))

    torch.cuda.memory._record_memory_history = legacy
    del torch._C._cuda_isHistoryEnabled
    with highwater.record(tmp_path / "run.pickle", max_entries=7):
        pass
    assert asked == [(True, 7, True), (False, 1, False)]


def test_a_torch_that_refuses_is_reported(torch: FakeTorch, tmp_path: Path, capsys: Any) -> None:
    def refuses(enabled: Any = "all", max_entries: int = 1) -> None:
        raise RuntimeError("not today")

    torch.cuda.memory._record_memory_history = refuses
    with highwater.record(tmp_path / "run.pickle"):
        pass
    assert "recording cannot start, the program continues without it: not today" in capsys.readouterr().err


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_writes_nothing(torch: FakeTorch, tmp_path: Path) -> None:
    with highwater.record(tmp_path / "run.pickle") as recorder:
        child = os.fork()
        if child == 0:
            # Nothing may come out of here but the status.
            status = 0 if recorder.stop() is None and recorder.dump() is None else 1
            os._exit(status)
        assert os.waitpid(child, 0)[1] == 0
        assert not os.listdir(tmp_path)
    assert os.listdir(tmp_path) == ["run.pickle"]


def test_steps_and_phases_are_annotations(torch: FakeTorch, tmp_path: Path) -> None:
    highwater.step()
    with highwater.phase("before"):
        pass
    with highwater.record(tmp_path / "run.pickle"):
        with highwater.phase("forward"):
            pass
        highwater.step()
    highwater.step()
    assert torch.annotations == ["forward", "highwater.step"]


@pytest.mark.parametrize(("option", "value"), [("max_entries", 0), ("stacks", "c++")])
def test_options_are_checked(option: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"`{option}` is"):
        highwater.record("run.pickle", **{option: value})


def test_a_chain_of_errors_is_searched_to_its_end(torch: FakeTorch) -> None:
    error = ValueError("outer")
    error.__cause__ = FakeTorch.OutOfMemoryError("inner")
    assert _torch.is_out_of_memory(error)
    error.__cause__ = error
    assert not _torch.is_out_of_memory(error)
    assert not _torch.is_out_of_memory(None)


# Without a change of code.


@pytest.mark.parametrize(
    ("target", "is_directory", "rank", "want"),
    [
        ("run.pickle", False, None, "run.pickle"),
        ("run.pickle", False, 3, "run.rank3.pickle"),
        ("highwater.pickle", False, 0, "rank0.pickle"),
        ("runs", True, 12, "runs/rank12.pickle"),
        ("runs", True, None, "runs/highwater.pickle"),
        ("a/run", False, 1, "a/run.rank1.pickle"),
    ],
)
def test_each_rank_has_a_file(target: str, is_directory: bool, rank: int | None, want: str) -> None:
    assert _process.file_for(Path(target), is_directory, rank) == Path(want)


SCRIPT = """
import sys
import torch
print(sys.argv[1:], __name__, torch.enabled)
if "fail" in sys.argv:
    torch.fail()
sys.exit(3 if "three" in sys.argv else 0)
"""

TORCH = """
import gzip, pickle, sys
from fake_torch import FakeTorch
with gzip.open(%r, "rb") as file:
    sys.modules[__name__] = FakeTorch(pickle.load(file))
"""


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with a script, and a made-up torch that other processes import."""
    from conftest import recording

    packages = tmp_path / "packages"
    packages.mkdir()
    (packages / "torch.py").write_text(TORCH % str(recording("oom_gpt2_8gib")))
    (tmp_path / "train.py").write_text(SCRIPT)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(packages), str(Path(__file__).parent)]))
    monkeypatch.delenv("RANK", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *words], capture_output=True, text=True, check=False)


def test_a_script_is_run_and_recorded(elsewhere: Path) -> None:
    done = _run("-m", "highwater", "run", "--record", "my.pickle", "train.py", "--record", "three")
    assert done.returncode == 3, done.stderr
    assert done.stdout == "['--record', 'three'] __main__ True\n"
    assert highwater.load(elsewhere / "my.pickle").devices == [0]


def test_a_module_is_run_and_recorded(elsewhere: Path) -> None:
    done = _run("-m", "highwater.autorecord", "--stacks=none", "-m", "train", "-b", "--record", "a")
    assert (done.returncode, done.stdout) == (0, "['-b', '--record', 'a'] __main__ True\n"), done.stderr
    assert (elsewhere / "highwater.pickle").exists()


def test_each_rank_of_a_job_writes_its_own(elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for rank in range(2):
        monkeypatch.setenv("RANK", str(rank))
        assert _run("-m", "highwater.autorecord", "--record", "ranks/", "train.py").returncode == 0
    names = [f"rank{rank}.{ending}" for rank in range(2) for ending in ("manifest.json", "pickle")]
    assert sorted(os.listdir(elsewhere / "ranks")) == names


@pytest.mark.parametrize("words", [["highwater", "run"], ["highwater.autorecord"]])
@pytest.mark.parametrize("script", [["train.py"], ["-m", "train"]])
def test_a_traceback_begins_in_the_script(elsewhere: Path, words: list[str], script: list[str]) -> None:
    (elsewhere / "train.py").write_text("import no_such_package\n")
    done = _run("-m", *words, *script)
    assert done.returncode == 1
    lines = done.stderr.splitlines()
    frames = [line for line in lines if line.startswith("  File ")]
    assert len(frames) == 1 and "train.py" in frames[0], done.stderr
    assert "ModuleNotFoundError: No module named 'no_such_package'" in lines


def test_a_module_that_is_not_there_has_no_traceback(elsewhere: Path) -> None:
    done = _run("-m", "highwater", "run", "-m", "no_such_module")
    assert done.returncode == 1
    assert "  File " not in done.stderr and "No module named no_such_module" in done.stderr


def test_a_script_that_runs_out_of_memory_is_explained(elsewhere: Path) -> None:
    done = _run("-m", "highwater", "run", "train.py", "fail")
    assert done.returncode == 1
    traceback, _, explained = done.stderr.partition("CUDA out of memory. Tried to allocate 2.00 GiB.")
    assert "Traceback" in traceback and "out of memory at entry 590" in explained
    assert sorted(path.name for path in elsewhere.glob("*.pickle")) == ["highwater.pickle"]


@pytest.mark.parametrize("words", [["run"], ["run", "-m"], ["run", "--nope", "train.py"], ["run", "nope.py"], ["run", "--stacks", "x", "train.py"]])
def test_bad_usage_has_status_two(elsewhere: Path, words: list[str]) -> None:
    assert _run("-m", "highwater", *words).returncode == 2


AT_START = (
    "import highwater_autorecord; highwater_autorecord.from_environment(); "
    "import runpy; runpy.run_path('train.py')"
)


def test_the_environment_records_what_imports_torch(elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HIGHWATER_RECORD", "env.pickle")
    done = _run("-c", AT_START)
    assert done.stdout.endswith("True\n"), done.stderr
    assert (elsewhere / "env.pickle").exists()
    done = _run("-c", "import highwater_autorecord; highwater_autorecord.from_environment()")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_program_that_only_looks_for_torch_first_is_recorded(elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HIGHWATER_RECORD", "env.pickle")
    looks = AT_START.replace("import runpy", "import importlib.util; importlib.util.find_spec('torch'); import runpy")
    done = _run("-c", looks)
    assert done.stdout.endswith("True\n"), done.stderr
    assert (elsewhere / "env.pickle").exists()


def test_without_the_variable_nothing_happens(elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HIGHWATER_RECORD", raising=False)
    assert "False" in _run("-c", AT_START).stdout


START_FILE = Path(__file__).parents[1] / "highwater_autorecord.pth"


@pytest.mark.parametrize(("target", "finders", "imported"), [("env.pickle", "1", "True"), ("", "0", "False")])
def test_a_virtual_environment_waits_once_and_imports_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str, finders: str, imported: str
) -> None:
    venv.create(tmp_path / "venv", symlinks=True)
    (packages,) = (tmp_path / "venv").glob("lib/python*/site-packages")
    for path in [START_FILE, START_FILE.with_suffix(".py")]:
        shutil.copy(path, packages)
    monkeypatch.setenv("HIGHWATER_RECORD", target)
    monkeypatch.delenv("PYTHONPATH", raising=False)
    looks = (
        "import sys; waiting = [one for one in sys.meta_path if type(one).__name__ == 'WhenTorchIsImported']; "
        "print(len(waiting), 'highwater_autorecord' in sys.modules, "
        "{'highwater', 'importlib.util', 'multiprocessing', 'argparse'} & set(sys.modules))"
    )
    done = subprocess.run([tmp_path / "venv/bin/python", "-c", looks], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == (f"{finders} {imported} set()\n", "")


def test_the_start_file_is_quiet_and_does_its_work() -> None:
    text = START_FILE.read_text()
    assert text.count("\n") == 1 and text.startswith("import ")
    names: dict[str, Any] = {}
    exec(text, names)
    gc.collect()
