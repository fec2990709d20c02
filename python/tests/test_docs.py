"""The examples of the documentation run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "python.md").read_text()
EXAMPLES = re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda text: text.splitlines()[-1][:30])
def test_an_example_runs(example: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for module in re.findall(r"^import ([\w, ]+)", example, re.MULTILINE):
        for name in module.split(", "):
            pytest.importorskip(name)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "testdata").symlink_to(ROOT / "testdata")
    exec(compile(example, "docs/python.md", "exec"), {"__name__": "example"})


def test_there_are_examples() -> None:
    assert len(EXAMPLES) == 4


def test_every_public_name_is_documented() -> None:
    import highwater

    types = {"Check", "Column", "Frame", "NamedTensors", "Recorder", "Snapshot", "Table", "__version__"}
    missing = [name for name in highwater.__all__ if name not in types and f"highwater.{name}" not in PAGE and name not in PAGE]
    assert not missing
