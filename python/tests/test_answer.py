"""Answering `highwater top`, with a torch that is made up."""

from __future__ import annotations

import json
import os
import pickle
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import highwater
import pytest
from fake_torch import FakeTorch
from highwater import _answer, _own_memory, _peaks

pytestmark = pytest.mark.skipif(not hasattr(socket, "SO_PEERCRED"), reason="needs the peer's credentials: Linux")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where the sockets are, and nobody answers before or after."""
    folder = tmp_path / "run"
    monkeypatch.setenv("HIGHWATER_RUN_DIR", str(folder))
    monkeypatch.delenv(_answer.VARIABLE, raising=False)
    monkeypatch.setattr(_answer, "_users", 0)
    monkeypatch.setattr(_answer, "_answerer", None)
    monkeypatch.setattr(_answer, "_peaks", _peaks.Peaks())
    yield folder
    while _answer._answerer is not None:
        _answer.end()


def ask(folder: Path, question: bytes) -> bytes:
    """All that comes back."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(10)
        connection.connect(str(folder / f"{os.getpid()}.sock"))
        connection.sendall(question)
        pieces = []
        while piece := connection.recv(65536):
            pieces.append(piece)
        return b"".join(pieces)


def memory(folder: Path, watcher: str = "a") -> dict[str, Any]:
    """What is answered about the one device."""
    answer = json.loads(ask(folder, json.dumps({"version": 1, "ask": "memory", "watcher": watcher}).encode() + b"\n"))
    assert answer["version"] == 1
    (device,) = answer["devices"]
    return dict(device)


def test_a_recorder_answers_while_it_records(torch: FakeTorch, folder: Path, tmp_path: Path) -> None:
    with highwater.record(tmp_path / "run.pickle"):
        torch.allocate(1000)
        device = memory(folder)
        assert (device["device"], device["allocated_bytes"], device["reserved_bytes"]) == (0, 1000, 2000)
        assert device["uuid"] == "GPU-0000"
    assert list(folder.iterdir()) == []
    with pytest.raises(OSError, match="No such file"):
        memory(folder)


def test_nested_recorders_answer_until_the_last_ends(torch: FakeTorch, folder: Path, tmp_path: Path) -> None:
    with highwater.record(tmp_path / "outer.pickle"):
        with highwater.record(tmp_path / "inner.pickle"):
            pass
        assert memory(folder)["device"] == 0
    assert list(folder.iterdir()) == []


def test_a_program_can_be_watched_without_being_recorded(torch: FakeTorch, folder: Path) -> None:
    with highwater.watchable():
        assert not torch.enabled
        assert memory(folder)["allocated_bytes"] == 0
    assert list(folder.iterdir()) == []


def test_nobody_is_answered_if_that_is_asked_for(
    torch: FakeTorch, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HIGHWATER_ANSWER", "0")
    with highwater.watchable():
        assert not folder.exists()


def test_the_socket_is_this_users_alone(torch: FakeTorch, folder: Path) -> None:
    with highwater.watchable():
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert stat.S_IMODE((folder / f"{os.getpid()}.sock").stat().st_mode) == 0o600


@pytest.mark.parametrize("spoil", [lambda path: path.mkdir(mode=0o755), lambda path: path.symlink_to("/tmp")])
def test_a_directory_that_is_open_to_others_is_not_used(
    torch: FakeTorch, folder: Path, spoil: Callable[[Path], None], capsys: pytest.CaptureFixture[str]
) -> None:
    spoil(folder)
    with highwater.watchable():
        said = capsys.readouterr().err
        assert "belongs to another user, or other users can open it" in said and "HIGHWATER_RUN_DIR" in said
        assert _answer._answerer is None


def test_another_user_is_not_answered(torch: FakeTorch, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with highwater.watchable():
        assert ask(folder, b'{"ask": "memory"}\n')
        monkeypatch.setattr(_answer, "peer_of", lambda connection: os.getuid() + 1)
        try:
            answer = ask(folder, b'{"ask": "memory"}\n')
        except ConnectionError:
            # Closed before the question was read.
            answer = b""
        assert answer == b""


@pytest.mark.parametrize(
    "question",
    [b"", b"\n", b"what?\n", b"[1]\n", b'{"ask": ["memory"]}\n', b'{"ask": "nothing"}\n', b"\xff\xfe\n", b"[" * 4000 + b"\n"],
)
def test_what_is_no_question_is_answered_with_what_is_one(torch: FakeTorch, folder: Path, question: bytes) -> None:
    with highwater.watchable():
        if question:
            assert b"expected" in ask(folder, question)
        else:
            with socket.socket(socket.AF_UNIX) as connection:
                connection.connect(str(folder / f"{os.getpid()}.sock"))
        assert memory(folder)["device"] == 0


def test_a_snapshot_comes_whole(torch: FakeTorch, folder: Path) -> None:
    with highwater.watchable():
        head, _, body = ask(folder, b'{"ask": "snapshot"}\n').partition(b"\n")
    assert json.loads(head)["bytes"] == len(body)
    assert pickle.loads(body) == torch.snapshot_dict


def test_what_torch_cannot_say_is_an_answer(torch: FakeTorch, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(device: int) -> None:
        raise RuntimeError("no such device")

    with highwater.watchable():
        monkeypatch.setattr(torch._C, "_cuda_memoryStats", fail)
        assert json.loads(ask(folder, b'{"ask": "memory"}\n'))["error"] == "RuntimeError: no such device"


def test_peaks_are_those_since_each_watcher_looked(torch: FakeTorch, folder: Path) -> None:
    with highwater.watchable():
        torch.allocate(1000)
        torch.allocate(-900)
        assert memory(folder, "a")["peak_allocated_bytes"] == 1000
        assert memory(folder, "a")["peak_allocated_bytes"] == 100
        # One that was not there yet sees what was since the program began.
        assert memory(folder, "b")["peak_allocated_bytes"] == 1000
        torch.allocate(400)
        torch.allocate(-400)
        assert memory(folder, "b")["peak_allocated_bytes"] == 500
        assert memory(folder, "a")["peak_allocated_bytes"] == 500
        assert memory(folder, "a")["peak_allocated_bytes"] == 100


def test_the_programs_own_peak_stays_what_it_was(torch: FakeTorch, folder: Path) -> None:
    def own_peak() -> int:
        return int(torch._C._cuda_memoryStats(0)["allocated_bytes"]["all"]["peak"])

    with highwater.watchable():
        torch.allocate(1000)
        torch.allocate(-900)
        memory(folder)
        memory(folder)
        assert own_peak() == 1000
        torch._C._cuda_resetPeakMemoryStats(0)
        assert own_peak() == 100
        torch.allocate(200)
        torch.allocate(-200)
        torch._C._cuda_resetPeakMemoryStats(0)
        # What the program reset, a watcher has not seen yet.
        assert memory(folder)["peak_allocated_bytes"] == 300
        assert own_peak() == 100
    assert own_peak() == 100


def test_watchers_are_forgotten_when_there_are_many(torch: FakeTorch, folder: Path) -> None:
    with highwater.watchable():
        torch.allocate(1000)
        torch.allocate(-1000)
        for number in range(3 * _peaks.MAX_WATCHERS):
            assert memory(folder, str(number))["peak_allocated_bytes"] == 1000
        assert len(_answer._peaks._unseen) <= _peaks.MAX_WATCHERS + 1


class FakeNvml:
    """What the driver says of this process, as it is while a context comes up."""

    held = [None, 100, 530, 530, 600]

    def bytes_on(self, uuid: str) -> int | None:
        """The next figure, the last for ever."""
        assert uuid == "GPU-0000"
        return self.held.pop(0) if len(self.held) > 1 else self.held[0]

    def close(self) -> None:
        """Nothing."""


def test_the_context_is_seen_as_soon_as_it_has_settled(
    torch: FakeTorch, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_answer, "OwnMemory", FakeNvml)
    torch.has_context = False
    with highwater.watchable():
        assert json.loads(ask(folder, b'{"ask": "memory"}\n'))["devices"] == []
        torch.has_context = True
        until = time.monotonic() + 10
        while memory(folder)["context_bytes"] is None and time.monotonic() < until:
            time.sleep(0.01)
        # 530 by the driver, of which 30 are PyTorch's.
        assert memory(folder)["context_bytes"] == 500


def test_a_context_that_was_there_before_is_not_guessed(torch: FakeTorch, folder: Path) -> None:
    with highwater.watchable():
        assert memory(folder)["context_bytes"] is None


def test_there_may_be_no_driver_to_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HIGHWATER_NVML", "/nowhere/libnvidia-ml.so.1")
    with pytest.raises(OSError):
        _own_memory.OwnMemory()


def test_a_forked_child_leaves_the_parents_socket_alone(torch: FakeTorch, folder: Path) -> None:
    with highwater.watchable():
        child = os.fork()
        if child == 0:
            os._exit(0 if _answer._answerer is None and _answer._users == 0 else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert memory(folder)["device"] == 0


def test_the_thread_ends(torch: FakeTorch, folder: Path) -> None:
    before = threading.active_count()
    for _ in range(3):
        with highwater.watchable():
            assert threading.active_count() == before + 1
        assert threading.active_count() == before


def test_a_program_that_ends_leaves_no_socket(folder: Path) -> None:
    code = "import highwater._answer as answer; answer.begin(); answer._answerer.path.stat(); print('there')"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout == "there\n"
    assert list(folder.iterdir()) == []


def test_a_watcher_that_asks_while_another_is_answered_is_heard(
    torch: FakeTorch, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    monkeypatch.setattr("highwater._answer.time.monotonic", lambda: now)
    with highwater.watchable(), socket.socket(socket.AF_UNIX) as waiting:
        answerer = _answer._answerer
        assert answerer is not None
        waiting.settimeout(60)
        waiting.connect(str(answerer.path))
        while not answerer._askers:
            time.sleep(0.001)

        def slow_snapshot() -> dict[str, Any]:
            nonlocal now
            waiting.sendall(b'{"ask": "memory"}\n')
            now += 2 * _answer.PATIENCE_SECS
            return torch.snapshot_dict

        monkeypatch.setattr("highwater._answer._torch.snapshot", slow_snapshot)
        assert b'"bytes"' in ask(folder, b'{"ask": "snapshot"}\n').partition(b"\n")[0]
        answer = json.loads(waiting.makefile("rb").readline())
        assert len(answer["devices"]) == 1


def test_a_snapshot_that_no_thread_can_send_is_an_answer_and_holds_nothing(
    torch: FakeTorch, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = threading.Thread.start

    def refuse(thread: threading.Thread) -> None:
        if thread.name == "highwater-snapshot":
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with highwater.watchable():
        for _ in range(_answer.SENT_AT_ONCE + 1):
            assert json.loads(ask(folder, b'{"ask": "snapshot"}\n')) == {
                "version": 1, "error": "RuntimeError: can't start new thread"
            }
