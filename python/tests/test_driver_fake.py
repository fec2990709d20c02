"""`highwater run --driver` as a whole, with the real native half, over a driver and a CUPTI that are made up (`fake_cupti.c`)."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
MIB = 1 << 20

TORCH = """
import sys
from fake_torch import FakeTorch
sys.modules["torch"] = torch = FakeTorch({"segments": [], "device_traces": [[]], "allocator_settings": {}})
torch.is_initialized = False
"""

USE = """
import ctypes, os, sys
import torch
while torch.waiting:
    torch.waiting.pop()()
# It keeps the interpreter's lock, so that lines are read without a wait.
cuda = ctypes.PyDLL("libcuda.so.1")
def allocate(size):
    address = ctypes.c_uint64()
    assert cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(size)) == 0
    return address
def free(address, size):
    assert cuda.cuMemFree_v2(address, ctypes.c_size_t(size)) == 0
"""


class Machine:
    """A folder with the libraries, and programs that run over them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.libraries = folder / "lib"
        self.libraries.mkdir()
        self.add("libcuda.so.1")
        (folder / "torch.py").write_text(TORCH)

    def add(self, name: str, *options: str) -> None:
        """Builds the libraries under a name; without options it is that of the driver, too."""
        target = self.libraries / name
        first = self.libraries / "libcuda.so.1"
        if not options and first.exists():
            target.symlink_to(first)
        else:
            source = str(HERE / "fake_cupti.c")
            subprocess.run(["cc", "-shared", "-fPIC", "-w", *options, "-o", str(target), source], check=True)

    def run(self, program: str, **variables: str) -> tuple[str, "dict[str, Any] | None"]:
        """Runs a program with the driver recorded. Gives what is said, and the recording."""
        (self.folder / "program.py").write_text(USE + program)
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(self.folder), str(HERE)]),
            "LD_LIBRARY_PATH": str(self.libraries),
            **variables,
        }
        command = [sys.executable, "-m", "highwater", "run", "--driver", "--record", "out.pickle", "program.py"]
        done = subprocess.run(command, cwd=self.folder, env=environment, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        snapshot = pickle.loads((self.folder / "out.pickle").read_bytes())
        text = snapshot.get("highwater_driver")
        return done.stderr, None if text is None else json.loads(text)

    def report(self) -> str:
        """The report of the last recording."""
        command = [sys.executable, "-m", "highwater", "report", "out.pickle"]
        text = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, check=True).stdout
        return " ".join(text.split())


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def kinds(recording: "dict[str, Any]") -> "list[tuple[str, int]]":
    events = recording["events"]
    return [(recording["kinds"][kind], size) for kind, size in zip(events["kind"], events["bytes"])]


def test_calls_are_recorded_with_their_lines(machine: Machine) -> None:
    machine.add("libcupti.so.13")
    said, recording = machine.run("a = allocate(300 << 20)\nb = allocate(5 << 20)\nfree(b, 5 << 20)\n")
    assert recording is not None and recording["cupti_version"] == 130001, said
    assert kinds(recording) == [("context", 527 * MIB), ("device", 300 * MIB), ("device", 5 * MIB), ("free", 0)]
    text = machine.report()
    assert "527.00 MiB" in text and "CUDA context" in text, text
    assert "305.00 MiB in 2 at program.py:10 allocate" in text, text
    assert "4 calls of the driver recorded" in text
    assert recording["without_python"] == 0


def test_the_local_memory_of_a_functions_first_launch_is_measured(machine: Machine) -> None:
    machine.add("libcupti.so.13")
    program = "allocate(2 << 20)\nfor function in [186, 62, 186, 62, 186]:\n    cuda.cuLaunchKernelEx(None, ctypes.c_uint64(function), None, None)\n"
    said, recording = machine.run(program)
    assert recording is not None, said
    assert kinds(recording)[2:] == [("launch", 186 * MIB), ("launch", 62 * MIB)]


def test_a_gpu_with_the_machines_memory_has_calls_only(machine: Machine) -> None:
    machine.add("libcupti.so.13")
    said, recording = machine.run("allocate(300 << 20)\ncuda.fake_use(7 << 20)\nallocate(5 << 20)\n", FAKE_INTEGRATED="1")
    assert recording is not None and recording["not_measured"] == [0], said
    assert kinds(recording) == [("device", 300 * MIB), ("device", 5 * MIB)], "others change what is free"
    text = machine.report()
    assert "Its memory is the machine's" in text and "306.00 MiB in all of 80.00 GiB" in text, text


def test_an_instance_of_a_divided_gpu_is_not_the_whole(machine: Machine) -> None:
    machine.add("libcupti.so.13")
    nvml = str(machine.libraries / "libcuda.so.1")
    for divided in [{"FAKE_MIG": "1"}, {}]:
        said, recording = machine.run("allocate(2 << 20)\n", HIGHWATER_NVML=nvml, FAKE_OTHERS="1", **divided)
        assert recording is not None, said
        assert kinds(recording) == [("context", 527 * MIB), ("device", 2 * MIB)], divided


LAUNCH = """
def launch(function, beside=0, fails=False):
    cuda.cuLaunchKernelEx(None, ctypes.c_uint64(function), ctypes.c_void_p(beside or None), ctypes.c_void_p(1 if fails else None))
"""


def test_a_function_has_a_first_launch_on_each_device(machine: Machine) -> None:
    machine.add("libcupti.so.13")
    program = f"{LAUNCH}\nfor device in [0, 1, 0]:\n    cuda.fake_set_device(device)\n    allocate(2 << 20)\n    launch(186)\n"
    said, recording = machine.run(program)
    assert recording is not None, said
    assert kinds(recording).count(("launch", 186 * MIB)) == 2, kinds(recording)
    assert not [kind for kind, _ in kinds(recording) if kind == "unexplained"]


def test_a_launch_that_failed_or_was_not_measured_is_not_forgotten(machine: Machine) -> None:
    machine.add("libcupti.so.13")
    program = f"{LAUNCH}\nallocate(2 << 20)\nlaunch(62, fails=True)\nlaunch(62)\nlaunch(186, beside=4 << 20)\nallocate(6 << 20)\n"
    said, recording = machine.run(program)
    assert recording is not None, said
    expected = [("launch", 62 * MIB), ("device", 4 * MIB), ("launch", 186 * MIB), ("device", 6 * MIB)]
    assert kinds(recording)[2:] == expected, kinds(recording)


def test_without_cupti_it_says_so_and_records_the_rest(machine: Machine) -> None:
    said, recording = machine.run("allocate(1)\n")
    assert recording is None
    assert "CUPTI is not here" in said and "PyTorch's memory only" in said and "nvidia-cuda-cupti" in said, said


def test_of_two_versions_the_loaded_one_is_used_and_else_the_newest(machine: Machine) -> None:
    machine.add("libcupti.so.12", "-DVERSION=120800")
    machine.add("libcupti.so.13")
    said, recording = machine.run("allocate(1)\n")
    assert recording is not None and recording["cupti_version"] == 130001, said
    assert recording["cupti"].endswith(("libcupti.so.13", "libcuda.so.1"))
    # A program that has one already, as torch has its own, would have the other see nothing.
    (machine.folder / "torch.py").write_text(f"import ctypes\nctypes.CDLL('libcupti.so.12')\n{TORCH}")
    said, recording = machine.run("allocate(1)\n")
    assert recording is not None and recording["cupti_version"] == 120800, said


def test_another_subscriber_keeps_cupti(machine: Machine) -> None:
    machine.add("libcupti.so.13")
    said, recording = machine.run("allocate(1)\n", FAKE_CUPTI="39")
    assert recording is None
    assert "another profiler has CUPTI, which serves one at a time" in said, said
    assert said.count("\nhint: record without `torch.profiler`, Nsight Systems") == 1, said
    assert said.count("record without") == 1, said
    said, _ = machine.run("allocate(1)\n", FAKE_CUPTI="35")
    assert "CUPTI refused with error 35 (CUPTI_ERROR_MADE_UP)" in said, said


def test_an_old_cupti_or_driver_is_named(machine: Machine) -> None:
    machine.add("libcupti.so.13", "-DTOO_OLD")
    said, recording = machine.run("allocate(1)\n")
    assert recording is None
    assert "`cuptiGetDeviceId` is missing: CUPTI or the driver is too old" in said, said


def test_a_forked_child_is_not_recorded_and_harms_nothing(machine: Machine) -> None:
    machine.add("libcupti.so.13")
    program = """
allocate(2 << 20)
child = os.fork()
if child == 0:
    for _ in range(100):
        allocate(2 << 20)
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
allocate(4 << 20)
"""
    said, recording = machine.run(program)
    assert recording is not None, said
    assert [size for kind, size in kinds(recording) if kind == "device"] == [2 * MIB, 4 * MIB]


def test_calls_beyond_the_room_are_counted_and_said(machine: Machine) -> None:
    machine.add("libcupti.so.13")
    program = "kept = allocate(64 << 20)\nfor _ in range(1000):\n    free(allocate(2 << 20), 2 << 20)\n"
    said, recording = machine.run(program, HIGHWATER_DRIVER_ENTRIES="10")
    assert recording is not None, said
    assert recording["seen"] == 2002 and len(recording["events"]["kind"]) == 10 + recording["told_again"]
    assert ("device", 64 * MIB) in kinds(recording), "its call is gone, its memory is not"
    assert "of the first 1,992, the file has only the memory that they left live" in machine.report()


def test_the_multi_process_service_is_named(machine: Machine, tmp_path: Path) -> None:
    machine.add("libcupti.so.13")
    pipes = tmp_path / "pipes"
    pipes.mkdir()
    (pipes / "control").touch()
    said, recording = machine.run("allocate(1)\n", CUDA_MPS_PIPE_DIRECTORY=str(pipes))
    assert recording is not None
    assert "Multi-Process Service" in said and "other clients" in said, said
    said, _ = machine.run("allocate(1)\n", CUDA_MPS_PIPE_DIRECTORY=str(tmp_path / "none"))
    assert "Multi-Process Service" not in said, said
