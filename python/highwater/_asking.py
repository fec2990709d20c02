"""One rank ran out of memory: the others are requested to write their state while they still can.

Ranks meet in a directory beside their recordings, which works on one host and on file systems that hosts share. A rank that fails leaves
a question there; a thread of each other rank sees it and writes that rank's recording, while its program may wait in a collective.
The rank that failed waits for those that have begun to answer before it ends, for launchers end the others then. Every wait has a limit,
and nothing here waits for another rank's answer that has not begun.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import threading
import time
from collections.abc import Callable
from pathlib import Path

from highwater._notice import notice

LOOK_SECONDS = 0.5
"""From look to look of a small job; of a large one, fewer looks go to the shared directory."""

MANY = 64
"""Ranks of a large job."""

MOST_ANSWERS = 3
"""A program that looks for the largest batch fails often."""

BEGIN_SECONDS = 4.0
"""Another rank begins to answer within this time, or is not waited for."""

END_SECONDS = 20.0
"""No rank is waited for any longer."""


class Meeting:
    """Where the ranks of a job leave questions and answers."""

    def __init__(self, folder: Path, run: str | None, rank: int, world_size: int | None) -> None:
        name = "".join(letter if letter.isalnum() else "-" for letter in run or "job")[:64]
        self.folder = folder / f".highwater-{name}"
        """The directory."""
        self.rank = rank
        self.world_size = world_size
        self._answer: Callable[[], object] | None = None
        self._asked: list[str] = []
        self._seen: set[str] = set()
        self._answers = 0
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self._answering = threading.Lock()

    def begin(self, answer: Callable[[], object]) -> None:
        """Answers questions with ``answer``, from now on."""
        self._answer = answer
        self.folder.mkdir(parents=True, exist_ok=True)
        # Questions of an earlier run in the same directory.
        self._seen.update(self._questions())
        self._thread = threading.Thread(target=self._watch, name="highwater ranks", daemon=True)
        self._thread.start()

    def ask(self) -> None:
        """Asks the other ranks: this one has run out of memory."""
        name = f"{self.rank}-{secrets.token_hex(4)}.failed"
        self._seen.add(name)
        with contextlib.suppress(OSError):
            (self.folder / name).touch()
            self._asked.append(name)

    def wait(self) -> None:
        """Waits for ranks that have begun to answer, if this one has asked: shortly."""
        if not self._asked:
            return
        began = time.monotonic()
        while (waited := time.monotonic() - began) < END_SECONDS:
            begun, ended = self._states()
            everyone = self.world_size is not None and len(ended) >= self.world_size - 1
            if everyone or (waited > BEGIN_SECONDS and begun <= ended):
                break
            time.sleep(LOOK_SECONDS / 4)
        answered = len(self._states()[1])
        if answered:
            notice(f"{answered} other {'rank' if answered == 1 else 'ranks'} wrote their state at this failure")

    def end(self) -> None:
        """Answers no more; what is being written is waited for, shortly."""
        self._ended.set()
        if self._answering.acquire(timeout=END_SECONDS):
            self._answering.release()
        for question in self._asked:
            for path in [self.folder / question, *self._paths(f"{question}.")]:
                with contextlib.suppress(OSError):
                    path.unlink()
        # The last to go: a directory that is not empty stays.
        with contextlib.suppress(OSError):
            self.folder.rmdir()

    def _watch(self) -> None:
        seconds = LOOK_SECONDS * (1 if (self.world_size or 0) <= MANY else 4)
        while not self._ended.wait(seconds):
            self._watch_once()

    def _watch_once(self) -> None:
        new = [name for name in self._questions() if name not in self._seen]
        if new:
            self._seen.update(new)
            self._answer_to(new)

    def _answer_to(self, questions: list[str]) -> None:
        if self._answers >= MOST_ANSWERS or self._answer is None:
            return
        self._answers += 1
        with self._answering:
            if self._ended.is_set():
                return
            self._mark(questions, "begun")
            try:
                self._answer()
            except Exception as error:
                notice(f"another rank ran out of memory, and this one's state cannot be written: {error}")
            finally:
                self._mark(questions, "done")

    def _mark(self, questions: list[str], state: str) -> None:
        for question in questions:
            with contextlib.suppress(OSError):
                (self.folder / f"{question}.{self.rank}.{state}").touch()

    def _questions(self) -> list[str]:
        return [path.name for path in self._paths("") if path.name.endswith(".failed")]

    def _states(self) -> tuple[set[str], set[str]]:
        """Ranks that have begun to answer this one's questions, and those that have done so."""
        names = [path.name for question in self._asked for path in self._paths(f"{question}.")]
        of = {state: {name.split(".")[-2] for name in names if name.endswith(f".{state}")} for state in ("begun", "done")}
        return of["begun"], of["done"]

    def _paths(self, prefix: str) -> list[Path]:
        with contextlib.suppress(OSError), os.scandir(self.folder) as entries:
            return [Path(entry.path) for entry in entries if entry.name.startswith(prefix)]
        return []
