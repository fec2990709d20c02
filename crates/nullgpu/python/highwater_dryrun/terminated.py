"""A rank that its launcher ends, because another one has failed: it leaves what it has recorded, also where it waits in C++ code that no
handler of Python's interrupts.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType


def hear(then: "Callable[[FrameType | None], None]") -> None:
    """Calls ``then`` with the main thread's frame when this process is asked to end, then ends it. Not if the program has a handler."""
    main = threading.main_thread()
    if threading.current_thread() is not main or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        return
    process = os.getpid()
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    before = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    if before != -1:
        # An event loop's.
        signal.set_wakeup_fd(before)

    def handle(*_: object) -> None:
        # An event loop may have the byte that Python writes. The other thread ends the process.
        os.write(writing, bytes([signal.SIGTERM]))

    def leave_to_default() -> None:
        # What the program forks shall not speak for this process.
        if signal.getsignal(signal.SIGTERM) is handle:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            signal.set_wakeup_fd(-1)

    def watch() -> None:
        while number := os.read(reading, 1):
            # The program may have another by now.
            if number[0] == signal.SIGTERM and signal.getsignal(signal.SIGTERM) is handle:
                try:
                    then(_frame_of(main))
                finally:
                    ctypes.CDLL(None).signal(int(signal.SIGTERM), None)
                    os.kill(process, signal.SIGTERM)

    signal.signal(signal.SIGTERM, handle)
    os.register_at_fork(after_in_child=leave_to_default)
    threading.Thread(target=watch, name="highwater", daemon=True).start()


def _frame_of(thread: threading.Thread) -> "FrameType | None":
    return sys._current_frames().get(thread.ident or 0)
