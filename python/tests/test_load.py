"""The recorder's socket under load, with a torch that is made up: for a second, or for as many as `HIGHWATER_LOAD_SECS` says."""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from pathlib import Path
from typing import Any

import highwater
import pytest
from fake_torch import FakeTorch
from test_answer import folder as folder
from test_answer import memory

pytestmark = pytest.mark.skipif(not hasattr(socket, "SO_PEERCRED"), reason="needs the peer's credentials: Linux")

WATCHERS = 100

GROWTH_BYTES = 16 << 20
"""What the memory may grow by from the first half to the second: there is an allocator beneath."""


def connected(folder: Path) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(60)
    connection.connect(str(folder / f"{os.getpid()}.sock"))
    return connection


def resident_bytes() -> int:
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmRSS:"))
    return int(line.split()[1]) << 10


def watch(folder: Path, name: str, is_over: threading.Event, answered: dict[str, int], failures: list[BaseException]) -> None:
    """Looks ten times a second, as `highwater top` does."""
    try:
        while not is_over.is_set():
            assert memory(folder, name)["device"] == 0
            answered[name] = answered.get(name, 0) + 1
            time.sleep(0.1)
    except BaseException as error:
        failures.append(error)


def spoil(folder: Path, is_over: threading.Event) -> None:
    """Watchers that say nothing, half of it, a byte at a time, or do not take the snapshot that they asked for."""
    kept: list[socket.socket] = []
    while not is_over.is_set():
        for asked in [b"", b'{"ask": "mem', b'{"ask": "snapshot"}\n', b"\x00" * 8192]:
            connection = connected(folder)
            kept.append(connection)
            try:
                for byte in asked:
                    connection.send(bytes([byte]))
            except OSError:
                continue
        for connection in kept[:-8]:
            connection.close()
        del kept[:-8]
        time.sleep(0.05)
    for connection in kept:
        connection.close()


def test_a_hundred_watchers_are_answered_and_nothing_grows(torch: FakeTorch, folder: Path) -> None:
    seconds = float(os.environ.get("HIGHWATER_LOAD_SECS", "1"))
    is_over = threading.Event()
    answered: dict[str, int] = {}
    failures: list[BaseException] = []
    threads = threading.active_count()
    with highwater.watchable():
        watchers = [
            threading.Thread(target=watch, args=(folder, str(number), is_over, answered, failures)) for number in range(WATCHERS)
        ]
        spoiler = threading.Thread(target=spoil, args=(folder, is_over))
        for thread in [*watchers, spoiler]:
            thread.start()
        began, most = time.monotonic(), [0, 0]
        # As long as it takes until everybody was answered, on a busy machine.
        while len(answered) < WATCHERS or time.monotonic() - began < seconds:
            part = int(time.monotonic() - began > seconds / 2)
            most[part] = max(most[part], resident_bytes())
            assert not failures, failures[0]
            time.sleep(0.02)
        is_over.set()
        for thread in [*watchers, spoiler]:
            thread.join()
        assert not failures, failures[0]
        if seconds >= 60:
            assert most[1] <= most[0] + GROWTH_BYTES, most
    assert list(folder.iterdir()) == []
    # Snapshots that nobody took are given up.
    until = time.monotonic() + 60
    while threading.active_count() > threads and time.monotonic() < until:
        time.sleep(0.05)
    # One of an earlier test may have ended meanwhile.
    assert threading.active_count() <= threads


def test_who_reads_a_snapshot_slowly_keeps_nobody_waiting(
    torch: FakeTorch, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The slow one is not given up before the other's patience is at its end.
    monkeypatch.setattr("highwater._answer.PATIENCE_SECS", 60)
    torch.snapshot_dict["large"] = bytes(8 << 20)
    with highwater.watchable(), connected(folder) as slow:
        slow.sendall(b'{"ask": "snapshot"}\n')
        first = slow.recv(10)
        assert first
        # It waits for the rest to be taken, and meanwhile:
        assert memory(folder)["device"] == 0


def test_a_question_in_pieces_is_one(torch: FakeTorch, folder: Path) -> None:
    with highwater.watchable(), connected(folder) as connection:
        for byte in b'{"ask": "memory"}\n':
            connection.send(bytes([byte]))
        answer: dict[str, Any] = json.loads(connection.makefile("rb").readline())
        assert len(answer["devices"]) == 1


def test_a_question_that_does_not_end_is_not_waited_for(torch: FakeTorch, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("highwater._answer.PATIENCE_SECS", 0.3)
    is_over = threading.Event()

    def dribble() -> None:
        with connected(folder) as connection:
            try:
                while not is_over.is_set():
                    connection.send(b" ")
                    time.sleep(0.02)
            except OSError:
                pass

    with highwater.watchable():
        dribbler = threading.Thread(target=dribble)
        dribbler.start()
        time.sleep(0.1)
        # Each byte is there in time; the question never is.
        assert memory(folder)["device"] == 0
        is_over.set()
        dribbler.join()
