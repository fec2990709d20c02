"""The oldest glibc that files run on, by `objdump -T` and `objdump -p` over every ELF file in them.

Looks into wheels, tarballs, Debian packages and OCI layouts, and into ELF files for those that they embed: the program carries the
libraries of a dry run inside. Fails if a version is newer than `--at-most`, if a library is needed that is not glibc's, or if fewer
ELF files are found than `--count` says.
"""

import argparse
import io
import re
import struct
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

# glibc's own, which manylinux promises. NVML is not among them: it is loaded at run time, where it is.
GLIBC = re.compile(r"^(lib(c|m|dl|rt|pthread|util)\.so\.[0-9]|ld-linux-[a-z0-9-]+\.so\.[0-9])$")
MAGIC = b"\x7fELF\x02\x01\x01"


def members(name: str, data: bytes) -> Iterator[tuple[str, bytes]]:
    """The files in an archive, and in archives in it; a file that is none is itself."""
    if data.startswith(b"PK\x03\x04"):
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            for one in archive.namelist():
                yield from members(f"{name}/{one}", archive.read(one))
    elif data.startswith(b"!<arch>\n"):
        at = 8
        while at + 60 <= len(data):
            one, size = data[at : at + 16].decode().strip(" /"), int(data[at + 48 : at + 58])
            yield from members(f"{name}/{one}", data[at + 60 : at + 60 + size])
            at += 60 + size + size % 2
    elif data.startswith((b"\x1f\x8b", b"\xfd7zXZ")) or data[257:262] == b"ustar":
        try:
            with tarfile.open(fileobj=io.BytesIO(data)) as archive:
                for one in archive:
                    file = archive.extractfile(one) if one.isfile() else None
                    if file:
                        yield from members(f"{name}/{one.name}", file.read())
        except tarfile.ReadError:
            # Compressed, but no archive: a manual page.
            pass
    else:
        yield name, data


def elves(name: str, data: bytes) -> Iterator[tuple[str, bytes]]:
    """The ELF file that `data` is, and those somewhere in it."""
    at = data.find(MAGIC)
    while at >= 0:
        header = data[at : at + 64]
        if len(header) == 64:
            kind, _, version = struct.unpack_from("<HHI", header, 16)
            sections, entry, count = struct.unpack_from("<Q", header, 40)[0], *struct.unpack_from("<HH", header, 58)
            end = at + sections + entry * count
            # The magic number alone is in every program that reads ELF files.
            if kind in (2, 3) and version == 1 and entry == 64 and 64 < end - at <= len(data) - at:
                yield (name if at == 0 else f"{name} at byte {at}"), data[at:end]
        at = data.find(MAGIC, at + 1)


def objdump(option: str, path: Path) -> str:
    command = ["objdump", option, str(path)]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def needs(elf: bytes) -> tuple[tuple[int, ...], list[str]]:
    """The newest version of glibc that is asked for, and the libraries that are not glibc's."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "elf"
        path.write_bytes(elf)
        headers = objdump("-p", path)
        # A static program has no table of dynamic symbols, and objdump fails.
        symbols = objdump("-T", path) if "Dynamic Section:" in headers else ""
    wanted = [line for line in symbols.splitlines() if "*UND*" in line]
    versions = [tuple(map(int, one.split("."))) for one in re.findall(r"GLIBC_([0-9.]+)", "\n".join(wanted))]
    libraries = re.findall(r"^\s+NEEDED\s+(\S+)", headers, re.MULTILINE)
    return max(versions, default=(0,)), [one for one in libraries if not GLIBC.match(one)]


def main() -> None:
    """Prints a line for each ELF file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--at-most", metavar="VERSION", help="the newest glibc that may be needed, such as 2.17")
    parser.add_argument("--count", type=int, default=1, help="ELF files that each file has at least")
    parser.add_argument("--allow", action="append", default=[], metavar="LIBRARY", help="a library beside glibc's")
    arguments = parser.parse_args()
    limit = tuple(map(int, arguments.at_most.split("."))) if arguments.at_most else None
    problems = []
    for file in arguments.files:
        found = [elf for name, data in members(file.name, file.read_bytes()) for elf in elves(name, data)]
        if len(found) < arguments.count:
            problems.append(f"{file.name}: {len(found)} ELF files, expected {arguments.count}")
        for name, elf in found:
            version, others = needs(elf)
            others = [other for other in others if other not in arguments.allow]
            print(f"glibc {'.'.join(map(str, version)):6} {name}{''.join(f' needs {other}' for other in others)}")
            if limit and version > limit:
                problems.append(f"{name} needs glibc {'.'.join(map(str, version))}, newer than {arguments.at_most}")
            problems += [f"{name} needs {other}" for other in others]
    if problems:
        sys.exit("\n".join(f"floor: {problem}" for problem in problems))


if __name__ == "__main__":
    main()
