"""What somebody reads whose system the package does not fit."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.machinery import ModuleSpec

import pytest
from highwater import __main__
from highwater._errors import unloadable


@pytest.mark.parametrize(
    "said, hint",
    [
        ("/lib64/libc.so.6: version `GLIBC_2.17' not found", "the static program"),
        ("Error relocating _highwater.abi3.so: __res_init: symbol not found", "the static program"),
        ("No module named 'highwater._highwater'", "install it with that Python's own pip"),
    ],
)
def test_a_native_half_that_cannot_be_loaded_names_a_way_out(said: str, hint: str) -> None:
    error = unloadable(ImportError(said, name="highwater._highwater"))
    assert said in str(error) and hint in str(error)
    assert error.name == "highwater._highwater"


def test_another_error_stays_as_it_is() -> None:
    error = ImportError("cannot import name 'x'")
    assert unloadable(error) is error


def test_an_old_python_is_refused_by_name() -> None:
    program = "import sys; sys.version_info = (3, 9, 2, 'final', 0); import highwater"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert ended.returncode == 1
    assert "ImportError: highwater needs Python 3.10 or newer, and this is 3.9" in ended.stderr


@pytest.mark.parametrize(
    "active, prefix, has_torch, becomes",
    [
        ({}, "/own", True, "/own"),
        # Installed by itself, as with pipx: the Python on the PATH has torch.
        ({}, "/own", False, None),
        ({}, sys.base_prefix, True, None),
        ({"VIRTUAL_ENV": "/other"}, "/own", True, "/other"),
        ({"CONDA_PREFIX": "/other"}, "/own", True, None),
    ],
)
def test_its_own_environment_is_that_of_scripts(
    active: dict[str, str], prefix: str, has_torch: bool, becomes: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        # Set first, so that it is put back afterwards.
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    for name, value in active.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "prefix", prefix)
    monkeypatch.setattr(__main__, "find_spec", lambda _: ModuleSpec("torch", None) if has_torch else None)
    __main__._activate()
    assert os.environ.get("VIRTUAL_ENV") == becomes
