"""The examples of the documentation run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "python.md").read_text()
CYCLES = (ROOT / "docs" / "cycles.md").read_text()
EXAMPLES = [
    example for page in (PAGE, CYCLES) for example in re.findall(r"^```python\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda text: text.splitlines()[-1][:30])
def test_an_example_runs(example: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    if "to_pandas" in example:
        pytest.importorskip("pandas")
    for module in re.findall(r"^import ([\w, ]+)", example, re.MULTILINE):
        for name in module.split(", "):
            pytest.importorskip(name)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "testdata").symlink_to(ROOT / "testdata")
    exec(compile(example, "an example", "exec"), {"__name__": "example"})


def test_there_are_examples() -> None:
    assert len(EXAMPLES) == 8


def test_every_public_name_is_documented() -> None:
    import highwater

    types = {"Check", "Column", "Frame", "NamedTensors", "Ranks", "Recorder", "Snapshot", "Table", "__version__"}
    missing = [name for name in highwater.__all__ if name not in types and f"highwater.{name}" not in PAGE and name not in PAGE]
    assert not missing


def test_every_name_of_the_cycle_detector_is_documented() -> None:
    from highwater import cycles

    missing = [name for name in cycles.__all__ if name not in {"Kept", "Kind", "Step", "Watch"} and name not in CYCLES]
    assert not missing


def test_an_example_prints_what_it_says(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    [example] = [example for example in EXAMPLES if "attribute_path" in example]
    monkeypatch.chdir(tmp_path)
    exec(compile(example, "an example", "exec"), {"__name__": "example"})
    said = re.findall(r"print\(.*?\) +# (.*)", example)
    assert len(said) == 2 and capsys.readouterr().out.splitlines() == said
    assert (tmp_path / "cycles.html").exists()
