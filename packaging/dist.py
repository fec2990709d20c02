"""Builds what is released into `target/dist`: wheels, an sdist, tarballs, a Debian package, an image, notices and a bill of materials.

Run by `make dist`, which builds the page before and has the tools in `target/dist-venv`. Zig links, against the oldest glibc that
Rust's standard library runs on, whatever this machine has. Two builds of one commit are equal: times are the commit's, and the names of
this machine's directories are replaced.
"""

import argparse
import gzip
import hashlib
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import oci
import tomllib
from components import ROOT, TARGETS

TOOLS = ROOT / "target/dist-venv/bin"
FLOOR = "2.17"
X86_64 = TARGETS[0]
HERE = f"{platform.machine()}-unknown-linux-gnu"
# A program without a C library: for Alpine, and for Linux that is older than the floor. It can load no library, so no wheel and no package.
STATIC = "x86_64-unknown-linux-musl"
# As Debian calls them.
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
LICENCES = ["LICENSE-APACHE", "LICENSE-MIT"]
# A wheel takes every `LICENSE-*`; git ignores this one.
NOTICES = ROOT / "LICENSE-THIRD-PARTY"
COMPLETIONS = {"bash": "highwater.bash", "zsh": "_highwater", "fish": "highwater.fish"}


def run(*command: object, **more: object) -> str:
    """What a command prints; it must succeed."""
    print("dist:", *command, flush=True)
    return subprocess.run(list(map(str, command)), cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True, **more).stdout


def version() -> str:
    with open(ROOT / "Cargo.toml", "rb") as file:
        return tomllib.load(file)["workspace"]["package"]["version"]


def environment() -> dict[str, str]:
    """What makes two builds equal."""
    cargo = Path(os.environ.get("CARGO_HOME", Path.home() / ".cargo"))
    sources = sorted((cargo / "registry/src").glob("*"))
    # The last that matches counts.
    renamed = [(ROOT, "highwater"), *((source, "crates") for source in sources)]
    flags = [f"--remap-path-prefix={directory}={name}" for directory, name in renamed]
    time = run("git", "log", "-1", "--format=%ct").strip()
    cflags = " ".join(f"-ffile-prefix-map={directory}={name}" for directory, name in renamed)
    return os.environ | {
        "CARGO_ENCODED_RUSTFLAGS": "\x1f".join(flags),
        "CARGO_INCREMENTAL": "0",
        "CFLAGS": cflags,
        "PATH": f"{TOOLS}:{os.environ['PATH']}",
        "SOURCE_DATE_EPOCH": os.environ.get("SOURCE_DATE_EPOCH", time),
        "VIRTUAL_ENV": str(TOOLS.parent),
    }


def zig(target: str, directory: Path) -> dict[str, str]:
    """Zig as the compiler and the linker of a target. Maturin and cargo-zigbuild each have a script of their own for it, and Cargo builds
    every crate again where the linker is another one."""
    directory.mkdir(parents=True, exist_ok=True)
    processor = target.split("-")[0]
    compiles = f"-g -fno-sanitize=all -target {processor}-linux-gnu.{FLOOR}"
    words = {"cc": f"cc -- {compiles}", "cxx": f"c++ -- {compiles}", "ar": "ar", "ranlib": "ranlib"}
    for name, command in words.items():
        script = directory / name
        script.write_text(f'#!/bin/sh\nexec cargo-zigbuild zig {command} "$@"\n')
        script.chmod(0o755)
    own = {f"{name.upper()}_{target.replace('-', '_')}": str(directory / name) for name in words}
    return own | {f"CARGO_TARGET_{target.replace('-', '_').upper()}_LINKER": str(directory / "cc")}


def targets(wanted: list[str]) -> list[str]:
    """Those of the targets for which Rust's standard library is here, or can be installed."""
    found = []
    for target in wanted:
        library = Path(run("rustc", "--print", "target-libdir", "--target", target).strip())
        if not library.is_dir():
            subprocess.run(["rustup", "target", "add", target], check=False)
        if library.is_dir():
            found.append(target)
        else:
            print(f"skipped: {target}: Rust's standard library for it could not be had; the release workflow builds it")
    return found


def archive(out: Path, top: str, files: dict[str, tuple[bytes, int]], time: int) -> None:
    """A tarball whose entries stand in `top`."""
    plain = oci.tar({f"{top}/{name}": file for name, file in files.items()}, time)
    out.write_bytes(gzip.compress(plain, 9, mtime=0))


def extras(program: Path | None, scratch: Path) -> tuple[dict[str, bytes], dict[str, bytes]]:
    """The manual pages and the completions, which the program writes: the same for every target. Where none is built that runs here, a
    development build writes them."""
    shutil.rmtree(scratch, ignore_errors=True)
    if program is None:
        run("cargo", "build", "--workspace", "--locked", "--bin", "highwater")
        program = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "debug/highwater"
    run(program, "man", "--output", scratch)
    pages = {path.name: path.read_bytes() for path in sorted(scratch.iterdir())}
    return pages, {name: run(program, "completions", shell).encode() for shell, name in COMPLETIONS.items()}


def debian(out: Path, architecture: str, files: dict[str, tuple[bytes, int]], scratch: Path, time: int) -> None:
    """A Debian package; `dpkg-deb` takes the times from the environment."""
    shutil.rmtree(scratch, ignore_errors=True)
    for name, (data, mode) in files.items():
        path = scratch / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        path.chmod(mode)
    size = sum(len(data) for data, _ in files.values()) // 1024
    sums = "".join(f"{hashlib.md5(data).hexdigest()}  {name}\n" for name, (data, _) in sorted(files.items()))
    control = f"""Package: highwater
Version: {version()}-1
Architecture: {architecture}
Maintainer: The highwater developers <highwater@localhost>
Installed-Size: {size}
Depends: libc6 (>= {FLOOR})
Section: devel
Priority: optional
Description: shows, explains and predicts the GPU memory use of PyTorch programs
 Reads memory snapshots, error messages, logs and models; names the cause of
 an out-of-memory error, the lines that hold the memory, and what helps.
"""
    (scratch / "DEBIAN").mkdir()
    (scratch / "DEBIAN/control").write_text(control)
    (scratch / "DEBIAN/md5sums").write_text(sums)
    for directory in [scratch, *(path for path in scratch.rglob("*") if path.is_dir())]:
        directory.chmod(0o755)
    run("dpkg-deb", "--root-owner-group", "-Zxz", "--build", scratch, out, env=os.environ | {"SOURCE_DATE_EPOCH": str(time)})


def main() -> None:
    """Builds everything, or the targets that are named."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", action="append", help=f"one of {', '.join([*TARGETS, STATIC])}; by default, all")
    parser.add_argument("--out", type=Path, default=ROOT / "target/dist")
    parser.add_argument("--build", type=Path, default=ROOT / "target/dist-build", help="where the compiler works")
    parser.add_argument("--only", choices=["programs", "wheels"], help="not the other half")
    arguments = parser.parse_args()
    out, build = arguments.out.resolve(), arguments.build.resolve()
    out.mkdir(parents=True, exist_ok=True)
    if not (ROOT / "ui/dist/calculator.html").is_file():
        sys.exit("dist: the page or the calculator is not built; `make ui` builds both, `make dist` does all")
    variables = environment()
    time = int(variables["SOURCE_DATE_EPOCH"])
    # Beside the names above: the build directory may be outside.
    variables["CARGO_ENCODED_RUSTFLAGS"] += f"\x1f--remap-path-prefix={build}=build"
    variables["CARGO_TARGET_DIR"] = str(build)
    bill = out / "highwater.cdx.json"
    run(sys.executable, ROOT / "packaging/components.py", "notices", NOTICES)
    run(sys.executable, ROOT / "packaging/components.py", "sbom", bill)

    wheel_bill = build / "highwater-python.cdx.json"
    run(sys.executable, ROOT / "packaging/components.py", "sbom", wheel_bill, "--package", "highwater-python")
    built = targets(arguments.target or [*TARGETS, STATIC])
    for target in [target for target in built if target != STATIC]:
        variables |= zig(target, build / "zig" / target)
    for target in [target for target in built if target != STATIC and arguments.only != "programs"]:
        options = ["--target", target, "--zig", "--compatibility", "manylinux2014", "--sbom-include", wheel_bill]
        run(TOOLS / "maturin", "build", "--locked", *options, "--out", out, env=variables)
    if arguments.only != "programs":
        run(TOOLS / "maturin", "sdist", "--out", out, env=variables)
    if arguments.only == "wheels":
        return

    texts = {path.name: path.read_bytes() for path in [*(ROOT / name for name in LICENCES), NOTICES, bill]}
    written: tuple[dict[str, bytes], dict[str, bytes]] | None = None
    for target in built:
        # With the features that the wheel has: so every crate is there already, and only the program itself is compiled.
        packages = ["--package", "highwater", "--package", "highwater-python"]
        command = [TOOLS / "cargo-zigbuild", "zigbuild", "--locked", "--release", *packages, "--bin", "highwater"]
        run(*command, "--target", target if target == STATIC else f"{target}.{FLOOR}", env=variables)
        program = build / target / "release/highwater"
        written = written or extras(build / HERE / "release/highwater" if HERE in built else None, build / "man")
        pages, completions = written
        own = {"highwater": (program.read_bytes(), 0o755), "README.md": ((ROOT / "README.md").read_bytes(), 0o644)}
        own |= {f"man/{name}": (data, 0o644) for name, data in pages.items()}
        own |= {f"completions/{name}": (data, 0o644) for name, data in completions.items()}
        own |= {name: (data, 0o644) for name, data in texts.items()}
        name = f"highwater-{version()}-{target}"
        archive(out / f"{name}.tar.gz", name, own, time)
        if target == STATIC:
            continue

        shared = {f"usr/share/doc/highwater/{name}": (data, 0o644) for name, data in texts.items()}
        shared["usr/share/doc/highwater/copyright"] = (texts["LICENSE-MIT"] + b"\n" + texts["LICENSE-APACHE"], 0o644)
        shared |= {f"usr/share/man/man1/{name}.gz": (gzip.compress(data, 9, mtime=0), 0o644) for name, data in pages.items()}
        places = ["bash-completion/completions/highwater", "zsh/vendor-completions/_highwater", "fish/vendor_completions.d/highwater.fish"]
        for place, data in zip(places, completions.values(), strict=True):
            shared[f"usr/share/{place}"] = (data, 0o644)
        shared["usr/bin/highwater"] = (program.read_bytes(), 0o755)
        architecture = ARCHITECTURES[target.split("-")[0]]
        debian(out / f"highwater_{version()}-1_{architecture}.deb", architecture, shared, build / "debian", time)
        if target == X86_64:
            (out / "highwater-top.oci.tar").write_bytes(oci.layout(program, version(), texts, time))
    sums = [path for path in sorted(out.iterdir()) if path.name != "SHA256SUMS"]
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in sums]
    (out / "SHA256SUMS").write_text("".join(lines))
    print(*(f"{path.stat().st_size:>12,}  {path.name}" for path in sums), sep="\n")


if __name__ == "__main__":
    main()
