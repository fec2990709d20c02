"""Answers ``highwater top``: how this process uses the GPU's memory, and snapshots while it runs.

A thread listens on a socket in a directory of the user's own. Only the same user can reach it, and the kernel confirms the user
(``SO_PEERCRED``). A request is one line of JSON, ``{"version": 1, "ask": "memory", "watcher": "…"}``, and so is the answer; a
snapshot follows its line.
"""

from __future__ import annotations

import atexit
import contextlib
import dataclasses
import json
import os
import pickle
import selectors
import socket
import stat
import struct
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

from highwater import _torch
from highwater._notice import notice
from highwater._own_memory import OwnMemory
from highwater._peaks import Peaks

VERSION = 1

VARIABLE = "HIGHWATER_ANSWER"
"""``0`` in the environment turns the answers off."""

LINE_BYTES = 4096

PIECE_BYTES = 64 * 1024

PATIENCE_SECS = 2.0
"""Seconds for a watcher to send its request, and to take each piece of the answer."""

WAITING = 128
"""Watchers that may be connected before their request is complete."""

SENT_AT_ONCE = 4
"""Snapshots that are on their way at the same time: each has a file on disk."""

LOOK_SECS = 0.02
"""Seconds between checks for the context, which exists soon after CUDA is first used."""

LOOKS = 3000
"""A minute. A program that does nothing with CUDA for so long begins with its context unseen."""

_lock = threading.RLock()
_users = 0
_answerer: Answerer | None = None
# One for the process: what the program would have seen must outlast any one of those who answer.
_peaks = Peaks()


def directory() -> Path:
    """Where the sockets of this user's processes are; the command line looks there, too."""
    named = os.environ.get("HIGHWATER_RUN_DIR")
    if named:
        return Path(named)
    root = os.environ.get("XDG_RUNTIME_DIR")
    return Path(root, "highwater") if root else Path(f"/tmp/highwater-{os.getuid()}")


def begin() -> None:
    """Answers from now on, until as many ask to :func:`end` as have asked to begin. Says if it cannot, and raises nothing."""
    global _users, _answerer
    with _lock:
        _users += 1
        if _answerer is not None or os.environ.get(VARIABLE) == "0" or not hasattr(socket, "SO_PEERCRED"):
            return
        try:
            _answerer = Answerer(directory())
        except OSError as error:
            notice(
                f"`highwater top` cannot look into this process: {error}; set HIGHWATER_RUN_DIR to a directory of your own, "
                "here and for `highwater top`"
            )


def end() -> None:
    """Ends :func:`begin`."""
    global _users, _answerer
    with _lock:
        _users = max(_users - 1, 0)
        if _users == 0 and _answerer is not None:
            _answerer.close()
            _answerer = None


@contextlib.contextmanager
def watchable() -> Iterator[None]:
    """Lets ``highwater top`` look into this program without recording it: a context manager, or a decorator.

    ``highwater top`` then shows how PyTorch uses the memory, with its true peaks, and ``highwater top --pid N --snapshot FILE``
    requests a snapshot. Only the same user on the same machine can do so. A program that records itself answers anyway.

    >>> with highwater.watchable():
    ...     train()
    """
    begin()
    try:
        yield
    finally:
        end()


@dataclasses.dataclass(eq=False)
class Asker:
    """A watcher whose request is not complete yet."""

    connection: socket.socket
    until: float
    line: bytes = b""


class Answerer:
    """A socket and the thread that listens on it. Raises ``OSError`` if the socket cannot be made safely."""

    def __init__(self, folder: Path) -> None:
        make_private(folder)
        self.path = folder / f"{os.getpid()}.sock"
        self._remove()
        self._contexts = Contexts()
        self._is_open = True
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._socket.bind(os.fspath(self.path))
            os.chmod(self.path, 0o600)
            self._socket.listen(WAITING)
        except OSError:
            self._socket.close()
            raise
        self._askers: list[Asker] = []
        self._selector = selectors.DefaultSelector()
        self._sending = threading.BoundedSemaphore(SENT_AT_ONCE)
        self._thread = threading.Thread(target=self._listen, name="highwater-answer", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stops answering."""
        self._is_open = False
        with contextlib.suppress(OSError):
            # Wakes the thread, which a mere close would not.
            self._socket.shutdown(socket.SHUT_RDWR)
        if threading.current_thread() is not self._thread:
            self._thread.join(timeout=PATIENCE_SECS)
        self._let_go()
        self._remove()

    def abandon(self) -> None:
        """Closes in a forked child: thread and file are the parent's."""
        self._is_open = False
        self._let_go()

    def _let_go(self) -> None:
        for asker in self._askers:
            asker.connection.close()
        self._askers = []
        self._selector.close()
        self._socket.close()

    def _remove(self) -> None:
        with contextlib.suppress(OSError):
            os.unlink(self.path)

    def _listen(self) -> None:
        # It may be closed at any moment.
        with contextlib.suppress(OSError, ValueError):
            self._selector.register(self._socket, selectors.EVENT_READ)
            while self._is_open:
                ready = self._selector.select(self._pause())
                # A watcher may ask while another is answered: it is not dismissed for the time that this takes.
                now = time.monotonic()
                for key, _ in ready:
                    # A watcher that goes away is none of the program's business, whatever else goes wrong.
                    with contextlib.suppress(Exception):
                        if key.fileobj is self._socket:
                            self._take_in()
                        else:
                            self._hear(key.data)
                for asker in [asker for asker in self._askers if asker.until < now]:
                    self._dismiss(asker)

    def _pause(self) -> float | None:
        """Seconds until there is something to do without a request."""
        pauses = [LOOK_SECS] if self._contexts.look() else []
        pauses += [max(asker.until - time.monotonic(), 0) for asker in self._askers]
        return min(pauses, default=None)

    def _take_in(self) -> None:
        """Accepts a watcher. If too many are connected without a request, the oldest of them is closed."""
        try:
            connection, _ = self._socket.accept()
        except OSError:
            # Closed; or the program has no descriptor left, and may have one soon.
            if self._is_open:
                time.sleep(LOOK_SECS)
            return
        if peer_of(connection) != os.getuid():
            connection.close()
            return
        if len(self._askers) >= WAITING:
            self._dismiss(self._askers[0])
        connection.setblocking(False)
        asker = Asker(connection, time.monotonic() + PATIENCE_SECS)
        self._askers.append(asker)
        self._selector.register(connection, selectors.EVENT_READ, asker)

    def _hear(self, asker: Asker) -> None:
        """Reads from a watcher, and answers when the request is complete."""
        try:
            piece = asker.connection.recv(LINE_BYTES - len(asker.line))
        except OSError:
            self._dismiss(asker)
            return
        asker.line += piece
        if piece and b"\n" not in piece and len(asker.line) < LINE_BYTES:
            return
        self._forget(asker)
        with contextlib.ExitStack() as own:
            own.enter_context(asker.connection).settimeout(PATIENCE_SECS)
            self._serve(asker, own)

    def _dismiss(self, asker: Asker) -> None:
        self._forget(asker)
        asker.connection.close()

    def _forget(self, asker: Asker) -> None:
        self._askers.remove(asker)
        self._selector.unregister(asker.connection)

    def _serve(self, asker: Asker, own: contextlib.ExitStack) -> None:
        """Answers a watcher. A long answer takes ``own``, which closes the connection, along."""
        connection = asker.connection
        try:
            asked = json.loads(asker.line.partition(b"\n")[0])
            answer = ANSWERS[asked["ask"]]
            watcher = str(asked.get("watcher", "?"))[:64]
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            say(connection, {"error": 'expected `{"ask": "memory"}` or `{"ask": "snapshot"}`'})
            return
        try:
            answer(self, connection, own, watcher)
        except Exception as error:
            say(connection, {"error": f"{type(error).__name__}: {error}"[:500]})

    def _memory(self, connection: socket.socket, own: contextlib.ExitStack, watcher: str) -> None:
        say(connection, {"devices": [self._device(number, watcher) for number in devices()]})

    def _device(self, number: int, watcher: str) -> dict[str, Any]:
        stats = _peaks.look(f"top {watcher}", number)
        allocated, reserved = stats["allocated_bytes"]["all"], stats["reserved_bytes"]["all"]
        return {
            "device": number,
            "uuid": uuid_of(number),
            "allocated_bytes": allocated["current"],
            "reserved_bytes": reserved["current"],
            "peak_allocated_bytes": allocated["peak"],
            "peak_reserved_bytes": reserved["peak"],
            "context_bytes": self._contexts.seen.get(number),
            "is_distributed": is_distributed(),
            "alloc_retries": stats.get("num_alloc_retries", 0),
            "ooms": stats.get("num_ooms", 0),
        }

    def _snapshot(self, connection: socket.socket, own: contextlib.ExitStack, watcher: str) -> None:
        from highwater._record import _put_names

        if not self._sending.acquire(blocking=False):
            say(connection, {"error": f"{SENT_AT_ONCE} snapshots are already on their way: try again when they are complete"})
            return
        own.callback(self._sending.release)
        snapshot = _torch.snapshot()
        _put_names(snapshot)
        # In a file first: the program's memory is not for holding it twice, and its length is known then.
        file = own.enter_context(tempfile.TemporaryFile())
        pickle.dump(snapshot, file, protocol=4)
        # Whoever reads slowly keeps no other watcher waiting.
        taken = own.pop_all()
        try:
            threading.Thread(target=send, args=(connection, file, taken), name="highwater-snapshot", daemon=True).start()
        except RuntimeError:
            # The system gives no thread: the watcher is told, and then all is closed.
            own.push(taken)
            raise


ANSWERS: dict[str, Callable[[Answerer, socket.socket, contextlib.ExitStack, str], None]] = {
    "memory": Answerer._memory,
    "snapshot": Answerer._snapshot,
}


def say(connection: socket.socket, answer: dict[str, Any]) -> None:
    """Writes a line."""
    connection.sendall(json.dumps({"version": VERSION, **answer}).encode() + b"\n")


def send(connection: socket.socket, file: IO[bytes], own: contextlib.ExitStack) -> None:
    """Sends a snapshot after its length, and closes ``own``."""
    with contextlib.suppress(Exception), own:
        size = file.tell()
        file.seek(0)
        say(connection, {"bytes": size})
        while piece := file.read(PIECE_BYTES):
            connection.sendall(piece)


def make_private(folder: Path) -> None:
    """Makes a directory that is this user's alone; raises ``OSError`` if there is one that is not."""
    with contextlib.suppress(FileExistsError):
        os.makedirs(folder, mode=0o700)
    found = os.lstat(folder)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or stat.S_IMODE(found.st_mode) & 0o077:
        raise OSError(f"`{folder}` belongs to another user, or other users can open it")


def peer_of(connection: socket.socket) -> int:
    """The user at the other end, by the system's word."""
    size = struct.calcsize("3i")
    _, uid, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
    return int(uid)


def devices() -> list[int]:
    """The devices that the process uses: asking about another would begin to."""
    torch = _torch.torch()
    if not torch.cuda.is_initialized():
        return []
    has_context = getattr(torch._C, "_cuda_hasPrimaryContext", None)
    return [number for number in range(torch.cuda.device_count()) if has_context is None or has_context(number)]


def is_distributed() -> bool:
    """Whether this is one of several ranks, so that NCCL may hold memory."""
    distributed = getattr(_torch.torch(), "distributed", None)
    return distributed is not None and bool(distributed.is_available()) and bool(distributed.is_initialized())


def uuid_of(number: int) -> str:
    """A device's name as the driver writes it, empty if torch does not have it."""
    uuid = str(getattr(_torch.torch().cuda.get_device_properties(number), "uuid", ""))
    return uuid if not uuid or uuid.startswith(("GPU-", "MIG-")) else f"GPU-{uuid}"


class Contexts:
    """The memory of the process on each device as soon as it has a context there: measured once, before anything else is
    loaded."""

    def __init__(self) -> None:
        self.seen: dict[int, int | None] = {}
        self._looks = 0
        self._last: dict[int, int] = {}
        self._memory: OwnMemory | None = None

    def look(self) -> bool:
        """Looks for new ones; says whether there is still something to see."""
        if self._looks > LOOKS:
            return False
        self._looks += 1
        try:
            for number in devices():
                if number not in self.seen:
                    self._see(number)
            waiting = not self.seen or any(number not in self.seen for number in devices())
        except Exception:
            waiting = False
        if not waiting:
            self._looks = LOOKS + 1
            if self._memory is not None:
                self._memory.close()
                self._memory = None
        return waiting

    def _see(self, number: int) -> None:
        """Measures the memory outside PyTorch as soon as it has settled."""
        cuda = _torch.torch().cuda
        if self._looks == 1:
            # The program used it before anybody looked: libraries may be in it.
            self.seen[number] = None
            return
        if self._memory is None:
            self._memory = OwnMemory()
        before = cuda.memory_reserved(number)
        held = self._memory.bytes_on(uuid_of(number))
        if held is None or cuda.memory_reserved(number) != before:
            return
        beside = held - before
        if self._last.get(number) == beside:
            self.seen[number] = beside
        self._last[number] = beside


def _after_fork() -> None:
    """A child answers for itself, if it begins to."""
    global _lock, _users, _answerer
    _lock = threading.RLock()
    if _answerer is not None:
        _answerer.abandon()
    _users, _answerer = 0, None
    _peaks.after_fork()


def _at_exit() -> None:
    if _answerer is not None:
        _answerer.close()


atexit.register(_at_exit)

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
