"""Files on this machine, in a bucket, or wherever `fsspec` or pyarrow find them."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from highwater import _highwater

ANY_SIZE = (1 << 64) - 1
"""A limit that no recording reaches."""


@dataclass(frozen=True)
class Place:
    """A path, and the file system that it is in; none is this machine's."""

    path: str
    filesystem: Any = None
    protocol: str = ""

    @classmethod
    def of(
        cls, place: str | os.PathLike[str], filesystem: object = None, options: dict[str, Any] | None = None
    ) -> Place:
        """The place of a path or an address such as ``s3://bucket/run``.

        Without a file system, an address is looked up by `fsspec` with its options, or by pyarrow where `fsspec` lacks what the
        protocol needs.
        """
        text = os.fspath(place)
        protocol, separator, rest = text.partition("://")
        if filesystem is not None:
            return cls(rest if separator else text, _as_fsspec(filesystem), protocol if separator else "data")
        if not separator:
            return cls(text)
        if protocol == "file":
            return cls(rest)
        found, path = _looked_up(text, options or {})
        return cls(path, found, protocol)

    @property
    def is_remote(self) -> bool:
        """Whether it is not this machine's own."""
        return self.filesystem is not None

    def __str__(self) -> str:
        return f"{self.protocol}://{self.path}" if self.is_remote else self.path

    def at(self, path: str) -> Place:
        """Another path of the same file system."""
        return Place(path, self.filesystem, self.protocol)

    def recordings(self) -> list[Place]:
        """The recordings that it names: a file, those that a pattern matches, or those in a folder, by their names."""
        if not self.is_remote:
            return [self.at(path) for path in _local_recordings(Path(self.path))]
        if any(letter in self.path for letter in "*?["):
            found = [str(path) for path in self.filesystem.glob(self.path)]
        elif self.filesystem.isdir(self.path):
            found = [str(path) for path in self.filesystem.find(self.path) if _is_recording(str(path))]
        else:
            found = [self.path]
        return [self.at(path) for path in sorted(found, key=_natural)]

    def files(self, folder: str, ending: str) -> list[str]:
        """The addresses of the files below a folder here whose names end so; hidden ones are still being written."""
        if not self.is_remote:
            root = Path(self.path) / folder
            return sorted(str(path) for path in root.rglob(f"*{ending}") if not path.name.startswith("."))
        root_path = f"{self.path.rstrip('/')}/{folder}"
        if not self.filesystem.exists(root_path):
            return []
        found = [str(path) for path in self.filesystem.find(root_path)]
        shown = [path for path in found if path.endswith(ending) and not path.rsplit("/", 1)[-1].startswith(".")]
        return [f"{self.protocol}://{path}" for path in sorted(shown)]

    def open(self) -> BinaryIO:
        """The file, opened for reading at its beginning."""
        if self.is_remote:
            return self.filesystem.open(self.path, "rb")  # type: ignore[no-any-return]
        return open(self.path, "rb")

    def read(self, allow_any_size: bool, limit: int = ANY_SIZE) -> _highwater.Snapshot:
        """The recording in the file, as long as it has no more than `limit` bytes, unpacked."""
        with self.open() as file:
            return _highwater.Snapshot.read_stream(file, f"`{self}`", allow_any_size, limit)

    def exists(self) -> bool:
        """Whether something is there."""
        return bool(self.filesystem.exists(self.path)) if self.is_remote else os.path.exists(self.path)

    def put(self, source: Path, path: str) -> None:
        """Copies a file of this machine to a path below here, where it appears as a whole."""
        target = f"{self.path.rstrip('/')}/{path}"
        self.filesystem.makedirs(target.rsplit("/", 1)[0], exist_ok=True)
        self.filesystem.put_file(str(source), target)

    def registered(self) -> Any:
        """The file system, for DuckDB: it finds it by its protocol."""
        protocols = self.filesystem.protocol
        known = protocols if isinstance(protocols, (tuple, list)) else (protocols,)
        if self.protocol not in known:
            self.filesystem.protocol = (self.protocol,)
        return self.filesystem


def _as_fsspec(filesystem: object) -> Any:
    """A file system with the functions of `fsspec`."""
    if type(filesystem).__module__.split(".")[0] == "pyarrow":
        from fsspec.implementations.arrow import ArrowFSWrapper

        return ArrowFSWrapper(filesystem)
    return filesystem


def _looked_up(address: str, options: dict[str, Any]) -> tuple[Any, str]:
    try:
        import fsspec
    except ImportError as error:
        raise ImportError(f"`{address}` is read by fsspec: `pip install fsspec s3fs`") from error
    try:
        filesystem, path = fsspec.core.url_to_fs(address, **options)
    except (ImportError, ValueError) as error:
        try:
            import pyarrow.fs
        except ImportError:
            raise ImportError(f"`{address}` cannot be read: {error}") from error
        found, path = pyarrow.fs.FileSystem.from_uri(address)
        return _as_fsspec(found), path
    return filesystem, path


def _local_recordings(path: Path) -> list[str]:
    if path.is_dir():
        found = [str(file) for file in path.rglob("*") if file.is_file() and _is_recording(file.name)]
    elif any(letter in path.name for letter in "*?["):
        found = [str(file) for file in path.parent.glob(path.name)]
    else:
        found = [str(path)]
    return sorted(found, key=_natural)


def _is_recording(path: str) -> bool:
    name = path.rsplit("/", 1)[-1]
    return not name.startswith(".") and _highwater.is_recording_name(name)


def _natural(name: str) -> list[tuple[str, int]]:
    """A name with its numbers in order: `rank2` before `rank10`."""
    return [(text, int(number or 0)) for text, number in re.findall(r"(\D*)(\d*)", name)]


def reason(error: Exception) -> str:
    """An error in one line, without control characters."""
    text = " ".join(str(error).split()) or type(error).__name__
    return "".join(letter if letter.isprintable() else "?" for letter in text)
