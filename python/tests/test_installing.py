"""What somebody reads whose system the package does not fit."""

from __future__ import annotations

import subprocess
import sys

import pytest
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
