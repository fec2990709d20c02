"""Installs and uses every artifact of `target/dist` where there is neither Rust nor Node, nor, for the program, Python.

Two chroots, made by debootstrap from the mirror that this machine's apt uses: the oldest Debian that can be had, and the oldest whose
Python highwater supports. Needs root. With a PyTorch (`--torch DIRECTORY`, for the Python of the second), scripts run dry in it.
Beside what works, everything that cannot work is tried and must say why: no place to write, a home that is read-only, a Python that is
too old, one without pip, a second highwater on the PATH, another processor.
"""

import argparse
import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from components import ROOT

SUITES = ["jessie", "stretch", "buster", "bullseye", "bookworm", "trixie", "forky"]
ERROR = (
    "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.10 GiB of which 1.20 GiB is free. Process 1 has "
    "77.90 GiB memory in use. Of the allocated memory 70.00 GiB is allocated by PyTorch, and 5.00 GiB is reserved by PyTorch but unallocated."
)
SCRIPT = """
import torch
from pathlib import Path

model = torch.nn.Linear(1024, 1024).cuda()
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(4):
    model(torch.randn(256, 1024, device="cuda")).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
Path("checkpoint.txt").write_text("written")
"""
TORCH = "/opt/torch"
RECORDING = ROOT / "testdata/recordings/linear_forward.pickle.gz"


class Unproven(Exception):
    """What an artifact does not do."""


def expect(holds: object, says: str) -> None:
    if not holds:
        raise Unproven(says)


class Chroot:
    """A Debian of its own in a directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def run(self, *command: object, status: int = 0, user: str = "root", **environment: str) -> str:
        """What a command prints on both streams; it must end with a status."""
        variables = {"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "HOME": "/root", "LANG": "C.UTF-8"} | environment
        arguments = ["chroot", f"--userspec={user}", self.directory, *command]
        ended = subprocess.run(
            list(map(str, arguments)), env=variables, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
        )
        shown = " ".join(map(str, command))
        expect(ended.returncode == status, f"`{shown}` ended with {ended.returncode}, not {status}:\n{ended.stdout}")
        return ended.stdout

    def path(self, name: str) -> Path:
        return self.directory / name.lstrip("/")

    def lacks(self, *programs: str) -> None:
        for program in programs:
            found = [name for name in ("usr/local/bin", "usr/bin", "bin") if self.path(f"{name}/{program}").exists()]
            expect(not found, f"the chroot has {program}")


def mirror() -> str:
    """Where this machine's apt takes Debian from."""
    command = ["apt-get", "indextargets", "--format", "$(REPO_URI) $(COMPONENT)", "Created-By: Packages"]
    lines = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()
    return next(line.split()[0] for line in lines if line.endswith(" main") and "security" not in line)


def debian(suite: str, cache: Path) -> Path | None:
    """A fresh copy of a release; none if it cannot be had."""
    kept, fresh = cache / suite, cache / f"{suite}.used"
    if not (kept / ".complete").exists():
        shutil.rmtree(kept, ignore_errors=True)
        command = ["debootstrap", "--variant=minbase", suite, str(kept), mirror()]
        if subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode != 0:
            return None
        (kept / ".complete").touch()
    shutil.rmtree(fresh, ignore_errors=True)
    subprocess.run(["cp", "-a", str(kept), str(fresh)], check=True)
    return fresh


@contextlib.contextmanager
def bound(directory: Path, at: Path) -> Iterator[None]:
    """Another directory, seen at a place in a chroot."""
    at.mkdir(parents=True, exist_ok=True)
    subprocess.run(["mount", "--bind", str(directory), str(at)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(at)], check=True)


def answers(chroot: Chroot, *command: str) -> str:
    """The page at the address that a command prints; the command is ended then."""
    arguments = ["chroot", str(chroot.directory), *command]
    serving = subprocess.Popen(
        arguments, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env={"PATH": os.environ["PATH"], "HOME": "/root"}
    )
    try:
        assert serving.stdout
        for line in serving.stdout:
            if found := re.search(r"http://127\.0\.0\.1:\d+/\S*", line):
                return urllib.request.urlopen(found[0], timeout=30).read().decode()
    finally:
        serving.terminate()
        serving.wait(30)
    raise Unproven(f"`{' '.join(command)}` printed no address")


def uses(chroot: Chroot, program: list[str], folder: str) -> None:
    """What an installed highwater must do without a GPU, without Python and without a network."""
    shutil.copy(RECORDING, chroot.path(f"{folder}/run.pickle.gz"))
    begun = time.monotonic()
    expect("out of memory" in chroot.run(*program, "demo"), "`demo` explains nothing")
    print(f"      demo in {time.monotonic() - begun:.2f} s")
    expect("Where the 79.10 GiB" in chroot.run(*program, "explain", "--message", ERROR), "`explain` does not read an error")
    expect("reserved" in chroot.run(*program, "report", f"{folder}/run.pickle.gz"), "`report` says nothing")
    page = answers(chroot, *program, "view", f"{folder}/run.pickle.gz", "--no-open")
    expect("app.js" in page or "<script" in page, "`view` serves no page")
    expect("The viewer is not in this build" not in page, "the page is not in this build")
    page = answers(chroot, *program, "estimate", "gpt2", "--web", "--no-open")
    expect("<script" in page and "not in this build" not in page, "`estimate --web` has no calculator")
    chroot.run(*program, "demo", "-o", f"{folder}/oom.pickle.gz")
    expect("GiB" in chroot.run(*program, "simulate", f"{folder}/oom.pickle.gz", "--card", "h100"), "`simulate` answers nothing")
    expect("libnvidia-ml.so.1" in chroot.run(*program, "top", "--once", status=2), "`top` does not name the missing driver")


def runs_dry(chroot: Chroot, program: list[str], folder: str) -> None:
    """A script with torch, without and with the sandbox, and where the stubs cannot be kept."""
    chroot.path(f"{folder}/train.py").write_text(SCRIPT)
    directory = chroot.path(folder)
    script = ["sh", "-c", f'cd {folder} && exec "$@"', "sh", *program, "dryrun", "--gpu", "h100"]
    variables = {"PYTHONPATH": TORCH}
    said = chroot.run(*script, "--steps", "3", "-o", "dry.pickle", "train.py", **variables)
    expect("reserved" in said or "peak" in said.lower(), f"`dryrun` shows no peak:\n{said}")
    expect((directory / "dry.pickle").exists(), "`dryrun` left no recording")
    (directory / "checkpoint.txt").unlink(missing_ok=True)
    chroot.run(*script, "--sandbox", "-o", "sandboxed.pickle", "train.py", **variables)
    expect((directory / "sandboxed.pickle").exists(), "`dryrun --sandbox` left no recording")
    expect(not (directory / "checkpoint.txt").exists(), "the sandbox let a file through")
    # A cache that cannot be written, and a home that is read-only: the stubs go to a directory of this run's own.
    if not chroot.path("/home/someone").exists():
        chroot.run("useradd", "-m", "someone")
    chroot.run("chown", "-R", "someone", folder)
    for place in [{"XDG_CACHE_HOME": "/proc/nowhere"}, {"HOME": "/usr"}, {"HOME": "/nowhere"}]:
        chroot.run(*script, "--force", "-o", "dry.pickle", "train.py", user="someone", **(variables | place))
    shutil.rmtree(chroot.path("/home/someone/.cache"), ignore_errors=True)
    chroot.run(*script, "--force", "-o", "dry.pickle", "train.py", user="someone", HOME="/home/someone", **variables)
    kept = chroot.path("/home/someone/.cache/highwater")
    expect(kept.is_dir() and kept.stat().st_mode & 0o022 == 0, "the stubs are not kept where only their user can write")


def prove_tarball(chroot: Chroot, tarball: Path) -> None:
    chroot.lacks("python3", "rustc", "cargo", "node", "npm")
    subprocess.run(["tar", "-xzf", str(tarball), "-C", str(chroot.path("/opt"))], check=True)
    folder = f"/opt/{tarball.name.removesuffix('.tar.gz')}"
    uses(chroot, [f"{folder}/highwater"], folder)
    chroot.path("/opt/train.py").write_text(SCRIPT)
    said = chroot.run(f"{folder}/highwater", "dryrun", "--gpu", "h100", "/opt/train.py", status=2)
    expect("python" in said.lower(), f"`dryrun` does not say that Python is missing:\n{said}")
    for name in ["LICENSE-MIT", "LICENSE-THIRD-PARTY", "highwater.cdx.json", "man/highwater.1", "completions/_highwater"]:
        expect(chroot.path(f"{folder}/{name}").stat().st_size > 100, f"{name} is missing")


def prove_beside_python(chroot: Chroot, tarball: Path, torch: Path) -> None:
    """The program of the tarball runs the scripts of a Python in which highwater is not installed."""
    subprocess.run(["tar", "-xzf", str(tarball), "-C", str(chroot.path("/opt"))], check=True)
    chroot.run("python3", "-c", "import highwater", status=1)
    chroot.path("/srv/program").mkdir(parents=True)
    with bound(torch, chroot.path(TORCH)), bound(Path("/proc"), chroot.path("/proc")), bound(Path("/dev"), chroot.path("/dev")):
        runs_dry(chroot, [f"/opt/{tarball.name.removesuffix('.tar.gz')}/highwater"], "/srv/program")


def prove_package(chroot: Chroot, package: Path) -> None:
    shutil.copy(package, chroot.path("/opt/highwater.deb"))
    chroot.run("dpkg", "--install", "/opt/highwater.deb")
    chroot.path("/srv/work").mkdir(parents=True, exist_ok=True)
    uses(chroot, ["highwater"], "/srv/work")
    listed = chroot.run("dpkg", "--listfiles", "highwater")
    for name in ["man1/highwater.1.gz", "bash-completion/completions/highwater", "copyright"]:
        expect(name in listed, f"the package lacks {name}")
    chroot.run("dpkg", "--verify", "highwater")
    chroot.run("dpkg", "--remove", "highwater")


def prove_wheel(chroot: Chroot, wheel: Path, torch: Path | None) -> None:
    chroot.lacks("rustc", "cargo", "node", "npm")
    shutil.copy(wheel, chroot.path("/opt"))
    chroot.run("python3", "-m", "venv", "/opt/venv")
    begun = time.monotonic()
    chroot.run("/opt/venv/bin/pip", "install", "--no-index", f"/opt/{wheel.name}")
    took = time.monotonic() - begun
    print(f"      pip install in {took:.2f} s")
    expect(took < 10, f"`pip install` took {took:.1f} s")
    program = ["/opt/venv/bin/highwater"]
    chroot.path("/srv/wheel").mkdir(parents=True)
    uses(chroot, program, "/srv/wheel")
    said = chroot.run("/opt/venv/bin/python", "-c", "import highwater; print(highwater.load('/srv/wheel/oom.pickle.gz').explain())")
    expect("out of memory" in said, "the module does not explain")
    if torch:
        with bound(torch, chroot.path(TORCH)), bound(Path("/proc"), chroot.path("/proc")), bound(Path("/dev"), chroot.path("/dev")):
            runs_dry(chroot, program, "/srv/wheel")
            two_on_the_path(chroot)
    # Without pip and without venv, the wheel is an archive of modules.
    chroot.run("python3", "-m", "zipfile", "-e", f"/opt/{wheel.name}", "/opt/modules")
    expect("out of memory" in chroot.run("python3", "-m", "highwater", "demo", PYTHONPATH="/opt/modules"), "no highwater from an archive")


def two_on_the_path(chroot: Chroot) -> None:
    """`python -m highwater` is always that Python's own, whatever is first on the PATH."""
    other = chroot.path("/usr/local/bin/highwater")
    other.write_text("#!/bin/sh\necho another highwater\n")
    other.chmod(0o755)
    expect("another" in chroot.run("highwater", "--version"), "the first on the PATH is not used")
    expect("highwater 0." in chroot.run("/opt/venv/bin/python", "-m", "highwater", "--version"), "the module is not its own")
    other.unlink()


def prove_refusal(chroot: Chroot, wheel: Path) -> None:
    """A Python that is too old says so, whether pip installs it or somebody puts it there."""
    chroot.run("apt-get", "install", "-qy", "--no-install-recommends", "python3-pip")
    shutil.copy(wheel, chroot.path("/opt"))
    version = chroot.run("python3", "-c", "import sys; print('%d.%d' % sys.version_info[:2])").strip()
    said = chroot.run("python3", "-m", "pip", "install", "--no-index", f"/opt/{wheel.name}", status=1)
    expect("requires a different Python" in said or "not a supported wheel" in said, f"pip on Python {version} says:\n{said}")
    chroot.run("python3", "-m", "zipfile", "-e", f"/opt/{wheel.name}", "/opt/modules")
    said = chroot.run("python3", "-m", "highwater", "--version", status=1, PYTHONPATH="/opt/modules")
    expect(f"highwater needs Python 3.10 or newer, and this is {version}" in said, f"Python {version} says:\n{said}")


def prove_image(image: Path, scratch: Path) -> None:
    """The image as a container's root would be: unpacked, without anything of this machine."""
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    layout, root = scratch / "layout", scratch / "bundle"
    subprocess.run(["skopeo", "copy", "-q", f"oci-archive:{image}", f"oci:{layout}:top"], check=True)
    subprocess.run(["umoci", "unpack", "--image", f"{layout}:top", str(root)], check=True, stderr=subprocess.DEVNULL)
    config = json.loads((root / "config.json").read_text())
    container = Chroot(root / "rootfs")
    said = container.run(*config["process"]["args"], status=2)
    expect("libnvidia-ml.so.1" in said, f"the image's command says:\n{said}")
    expect("out of memory" in container.run("/usr/bin/highwater", "demo"), "the image's program explains nothing")


def prove_static(tarball: Path, scratch: Path) -> None:
    """The program alone in an empty root, as on a system with another C library."""
    shutil.rmtree(scratch, ignore_errors=True)
    (scratch / "tmp").mkdir(parents=True)
    subprocess.run(["tar", "-xzf", str(tarball), "-C", str(scratch), "--strip-components=1"], check=True)
    empty = Chroot(scratch)
    expect("out of memory" in empty.run("/highwater", "demo"), "`demo` explains nothing")
    for command in ["top --once", "doctor"]:
        said = empty.run("/highwater", *command.split(), status=2)
        expect("static build" in said, f"`{command}` does not name the other build:\n{said}")
    said = empty.run("/highwater", "dryrun", "--gpu", "h100", "train.py", status=2)
    expect("are for Linux on x86-64" in said, f"`dryrun` does not name the other build:\n{said}")


def prove_other_processor(tarball: Path, scratch: Path) -> None:
    """The program for aarch64, emulated, over Debian's C library for it."""
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    subprocess.run(["apt-get", "-o", "APT::Sandbox::User=root", "-q", "download", "libc6-arm64-cross"], cwd=scratch, check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["dpkg-deb", "-x", str(next(scratch.glob("*.deb"))), str(scratch)], check=True)
    subprocess.run(["tar", "-xzf", str(tarball), "-C", str(scratch)], check=True)
    program = next(scratch.glob("highwater-*/highwater"))
    emulated = ["qemu-aarch64-static", "-L", str(scratch / "usr/aarch64-linux-gnu"), str(program)]

    def said(*words: str) -> str:
        return subprocess.run([*emulated, *words], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT).stdout

    expect("out of memory" in said("demo"), f"emulated, `demo` says:\n{said('demo')}")
    expect("reserved" in said("report", str(RECORDING)), "emulated, `report` says nothing")
    (scratch / "train.py").write_text(SCRIPT)
    for options in [[], ["--sandbox"]]:
        answer = said("dryrun", "--gpu", "h100", *options, str(scratch / "train.py"))
        expect("are for Linux on x86-64" in answer, f"emulated, `dryrun {' '.join(options)}` says:\n{answer}")


def main() -> None:
    """Proves all that is there."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dist", type=Path, default=ROOT / "target/dist")
    parser.add_argument("--cache", type=Path, default=ROOT / "target/proof", help="where the chroots are kept")
    parser.add_argument("--torch", type=Path, help="a directory with PyTorch for CUDA")
    arguments = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("prove: a chroot needs root")
    dist, cache = arguments.dist.resolve(), arguments.cache.resolve()
    cache.mkdir(parents=True, exist_ok=True)
    torch = arguments.torch.resolve() if arguments.torch and arguments.torch.is_dir() else None

    def artifact(pattern: str) -> Path | None:
        return next(iter(sorted(dist.glob(pattern))), None)

    oldest = next((suite for suite in SUITES if debian(suite, cache)), None)
    expect(oldest, "no release of Debian can be had")
    modern = None
    for suite in SUITES[SUITES.index(str(oldest)) :]:
        directory = debian(suite, cache)
        if directory is None:
            continue
        chroot = Chroot(directory)
        if not chroot.path("/usr/bin/python3").exists():
            chroot.run("apt-get", "install", "-qy", "--no-install-recommends", "python3-venv")
        if int(chroot.run("python3", "-c", "import sys; print(sys.version_info[1])")) >= 10:
            modern = chroot
            break
    expect(modern, "no release of Debian has Python 3.10")
    assert modern
    print(f"prove: the oldest Debian that can be had is {oldest}; Python 3.10 or newer comes with {modern.directory.stem}")

    failures = 0

    def prove(name: str, path: Path | None, proof: object, *more: object) -> None:
        nonlocal failures
        if path is None:
            print(f"skipped: {name}: it is not in {dist.name}")
            return
        print(f"prove: {name}: {path.name}", flush=True)
        try:
            proof(path, *more)  # type: ignore[operator]
        except Unproven as error:
            failures += 1
            print(f"  FAIL {error}")

    def fresh() -> Chroot:
        directory = debian(str(oldest), cache)
        assert directory
        return Chroot(directory)

    prove("tarball", artifact("highwater-*-x86_64-*gnu.tar.gz"), lambda path: prove_tarball(fresh(), path))
    if torch:
        prove("tarball beside a Python", artifact("highwater-*-x86_64-*gnu.tar.gz"), lambda path: prove_beside_python(modern, path, torch))
    prove("package", artifact("highwater_*_amd64.deb"), lambda path: prove_package(fresh(), path))
    wheel = artifact("highwater-*x86_64.whl")
    prove("wheel", wheel, lambda path: prove_wheel(modern, path, torch))
    if oldest != modern.directory.stem:
        prove("wheel on an old Python", wheel, lambda path: prove_refusal(fresh(), path))
    prove("image", artifact("highwater-top.oci.tar"), lambda path: prove_image(path, cache / "image"))
    prove("static program", artifact("highwater-*-musl.tar.gz"), lambda path: prove_static(path, cache / "static"))
    prove("aarch64", artifact("highwater-*-aarch64-*.tar.gz"), lambda path: prove_other_processor(path, cache / "aarch64"))
    if not torch:
        print("skipped: dry runs: no PyTorch is given")
    if failures:
        sys.exit(f"prove: {failures} artifacts do not hold")
    print("prove: all hold")


if __name__ == "__main__":
    main()
