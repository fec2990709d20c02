"""The viewer, served by a process of its own."""

from __future__ import annotations

import atexit
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from highwater._errors import SnapshotError

if TYPE_CHECKING:
    from highwater._snapshot import Snapshot


class Viewer:
    """A server of the viewer on the loopback. It ends with :meth:`close`, with the ``with`` block, or with the program."""

    def __init__(self, process: subprocess.Popen[str], address: str, made: Path | None) -> None:
        self._process = process
        self._made = made
        self.address = address
        """The address for a browser."""
        atexit.register(self.close)

    def wait(self) -> None:
        """Waits until Ctrl-C, and closes."""
        try:
            self._process.wait()
        except KeyboardInterrupt:
            pass
        finally:
            self.close()

    def close(self) -> None:
        """Ends the server."""
        atexit.unregister(self.close)
        self._process.terminate()
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
        if self._made is not None:
            self._made.unlink(missing_ok=True)

    def __enter__(self) -> Viewer:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<highwater.Viewer at {self.address}>"


def serve(snapshot: Snapshot, *, block: bool | None, open_browser: bool) -> Viewer:
    """Serves a snapshot."""
    path, made = (snapshot._path, None) if snapshot._path is not None else (_written(snapshot),) * 2
    # It opens the browser itself: what is given to a browser here, every user of the machine could list, token and all.
    command = [sys.executable, "-m", "highwater", "view", *([] if open_browser else ["--no-open"]), "--", str(path)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
    first = process.stdout.readline() if process.stdout is not None else ""
    address = first.rpartition(" at ")[2].strip()
    if not address.startswith("http://"):
        process.terminate()
        process.wait()
        raise SnapshotError("the viewer could not be started", hint="see its output for the reason")
    viewer = Viewer(process, address, made)
    if block if block is not None else not _is_interactive():
        print(f"Viewing {snapshot.name} at {address}\nPress Ctrl-C to stop", flush=True)
        viewer.wait()
    return viewer


def _written(snapshot: Snapshot) -> Path:
    """A file for the server to read, of a snapshot that came from none."""
    number, path = tempfile.mkstemp(prefix="highwater-", suffix=".pickle")
    os.close(number)
    snapshot.to_pickle(path)
    return Path(path)


def _is_interactive() -> bool:
    return hasattr(sys, "ps1") or "ipykernel" in sys.modules or bool(sys.flags.interactive)
