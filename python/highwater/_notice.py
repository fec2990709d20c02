"""Messages of recording: once, on standard error, and never as an exception."""

from __future__ import annotations

import contextlib
import sys

_said: set[str] = set()


def notice(text: str) -> None:
    """Says something once."""
    if text in _said:
        return
    _said.add(text)
    with contextlib.suppress(OSError, ValueError, AttributeError):
        # Standard error may be closed, or not be there.
        print(f"highwater: {text}", file=sys.stderr, flush=True)
