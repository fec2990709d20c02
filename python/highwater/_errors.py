"""The exception of all functions that read snapshots, and that of a package that does not fit its system."""

from __future__ import annotations

import platform


class SnapshotError(ValueError):
    """A snapshot cannot be read, or a question about it cannot be answered.

    The message gives the problem and its place. Further attributes:

    ``hint``
        advice;
    ``offset``
        the byte, in the decompressed input;
    ``entry``
        the trace entry.

    After an error of the operating system, ``__cause__`` is its ``OSError``.
    """

    hint: str | None
    offset: int | None
    entry: int | None

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        offset: int | None = None,
        entry: int | None = None,
    ) -> None:
        super().__init__(message)
        self.hint = hint
        self.offset = offset
        self.entry = entry

    def __str__(self) -> str:
        message = super().__str__()
        return f"{message}\nhint: {self.hint}" if self.hint else message

    def __reduce__(self) -> tuple[object, ...]:
        details = {"hint": self.hint, "offset": self.offset, "entry": self.entry}
        return (_again, (type(self), self.args[0], details))


def _again(
    kind: type[SnapshotError], message: str, details: dict[str, object]
) -> SnapshotError:
    """Restores an exception from a pickle, as from a worker process."""
    return kind(message, **details)  # type: ignore[arg-type]


def unloadable(error: ImportError) -> ImportError:
    """The error of a native half that cannot be loaded, with a way out."""
    text = str(error)
    if "GLIBC" in text or "musl" in text or "relocating" in text:
        hint = (
            "this package needs Linux with glibc 2.17 or newer; the static program for "
            "`x86_64-unknown-linux-musl` runs on any Linux"
        )
    elif "No module named" in text:
        hint = (
            f"this copy was built for another Python or another processor than {platform.python_implementation()} "
            f"{platform.python_version()} on {platform.machine()}; install it with that Python's own pip"
        )
    else:
        return error
    return ImportError(f"{text}\nhint: {hint}", name=error.name, path=error.path)
