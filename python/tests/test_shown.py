"""What notebooks and `print` show, and that it survives what notebooks do to HTML."""

from __future__ import annotations

import base64
import json
import pickle
import re
from html.parser import HTMLParser
from typing import Any

import highwater
import pytest
from conftest import recording
from highwater._html import pretty

PLAIN_TAGS = {"br", "code", "details", "div", "iframe", "img", "p", "pre", "span", "summary", "table", "tbody", "td", "th", "thead", "tr"}
"""Those that a notebook which is not trusted keeps, and the frame, whose words it keeps."""


class Tags(HTMLParser):
    """Every element of a page, with its attributes; and the text in each."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str]]] = []
        self.texts: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, {name: value or "" for name, value in attrs}))

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    @property
    def text(self) -> str:
        return "".join(self.texts)

    def only(self, tag: str) -> list[dict[str, str]]:
        return [attributes for name, attributes in self.found if name == tag]


def answers() -> list[Any]:
    snapshot = highwater.load(recording("linear_forward"))
    return [
        snapshot.simulate("", capacity="1GiB"),
        snapshot.diff(highwater.load(recording("leak_grows"))),
        snapshot.check(peak_allocated="1GiB"),
        highwater.estimate("gpt2", batch=4, seq=512),
    ]


def test_a_snapshot_survives_a_notebook_that_is_not_trusted() -> None:
    page = Tags(highwater.load(recording("oom_gpt2_8gib"))._repr_html_())
    assert {tag for tag, _ in page.found} <= PLAIN_TAGS
    (text,) = page.only("pre")
    for style in ("monospace", "white-space: pre;", "word-break: normal", "overflow-x: auto"):
        assert style in text["style"]
    (picture,) = page.only("img")
    kind, _, data = picture["src"].partition(",")
    assert kind == "data:image/svg+xml;base64"
    assert base64.b64decode(data).startswith(b"<svg xmlns")
    assert picture["alt"].startswith("Device 0 over the trace: 7.86 GiB allocated and 7.87 GiB reserved")
    assert "snapshot.view()" in page.text
    report = page.text[page.text.index("oom_gpt2_8gib") : page.text.index("Open the viewer")]
    assert max(map(len, report.splitlines())) <= 100


@pytest.mark.parametrize("answer", answers(), ids=lambda answer: type(answer).__name__)
def test_an_answer_shows_as_the_text_of_the_command(answer: Any) -> None:
    assert str(answer) == answer.text and answer.text.endswith("\n")
    assert "\x1b" not in answer.text
    page = Tags(answer._repr_html_())
    assert [tag for tag, _ in page.found] == ["pre"]
    assert page.text.strip() == answer.text.strip()
    assert "\n" not in repr(answer) and len(repr(answer)) < 600


@pytest.mark.parametrize("answer", answers()[:3], ids=lambda answer: type(answer).__name__)
def test_an_answer_is_still_a_dict(answer: Any) -> None:
    assert issubclass(type(answer), dict)
    assert json.loads(json.dumps(answer)) == dict(answer) == {**answer}
    assert str(answer["format"]).startswith("highwater-")
    again = pickle.loads(pickle.dumps(answer))
    assert again == answer and again.text == answer.text


def shown() -> list[Any]:
    snapshot = highwater.load(recording("oom_gpt2_8gib"))
    return [snapshot, snapshot.live("oom"), snapshot.lifetimes(), *answers()]


@pytest.mark.parametrize("one", shown(), ids=lambda one: type(one).__name__)
def test_a_page_of_a_notebook_needs_no_program_no_sheet_and_no_other_place(one: Any) -> None:
    """The webview of VS Code and the frame of Colab show inline styles and pictures as data; GitHub and nbviewer remove the rest."""
    page = Tags(one._repr_html_())
    assert {tag for tag, _ in page.found} <= PLAIN_TAGS
    for tag, attributes in page.found:
        assert not [name for name in attributes if name.startswith("on")], f"{tag} runs a program"
        for name in ("src", "href", "background", "poster", "data", "action"):
            assert attributes.get(name, "data:").startswith("data:"), f"{tag} {name}"
        assert "url(" not in attributes.get("style", "") and "@import" not in attributes.get("style", "")
        if tag in ("pre", "th", "td"):
            assert "monospace" in attributes["style"], f"{tag} has no font of its own"
    for frame in page.only("iframe"):
        # It runs the viewer in an origin of its own: not the notebook's, and nothing is fetched.
        assert frame["sandbox"] == "allow-scripts"
        inside = Tags(frame["srcdoc"])
        for tag, attributes in inside.found:
            assert attributes.get("src", "data:").startswith("data:"), f"the frame's {tag}"
            if tag == "link":
                assert attributes["href"].startswith("data:")


class Printer:
    """As much of IPython's as an object meets; ``depth`` lists and dicts are around it."""

    def __init__(self, depth: int = 0) -> None:
        self.stack = [0] * (depth + 1)
        self.written = ""

    def text(self, text: str) -> None:
        self.written += text


@pytest.mark.parametrize("one", shown(), ids=lambda one: type(one).__name__)
def test_a_workspace_that_is_not_trusted_shows_the_same_as_plain_text(one: Any) -> None:
    """VS Code shows neither HTML nor SVG there, but ``text/plain`` (``renderOutputItem`` of its extension ``notebook-renderers``)."""
    alone, inside = Printer(), Printer(depth=1)
    one._repr_pretty_(alone, False)
    one._repr_pretty_(inside, False)
    assert inside.written == repr(one)
    # The text of each of a list's objects is not made: it may be a report of a large file.
    pretty(inside, one, lambda: pytest.fail("made for a single line"))
    # No control character of a name in it, nor a style.
    assert all(c.isprintable() for c in alone.written.replace("\n", ""))
    known = re.compile(r"\d+\.\d+ [KMG]iB|[a-z_0-9]+\.py:\d+")
    words = known.findall(" ".join(Tags(one._repr_html_()).texts))
    assert words and set(words) <= set(known.findall(alone.written))


def test_names_in_plain_text_move_no_cursor() -> None:
    frames = [{"filename": "\x1b[2J.py", "line": 1, "name": "f\n"}]
    block = {"address": 4096, "size": 512, "requested_size": 4, "state": "active_allocated", "frames": frames}
    segment = {"device": 0, "address": 4096, "total_size": 2097152, "stream": 0, "segment_type": "small", "blocks": [block]}
    live = highwater.load({"segments": [segment], "device_traces": [[]]}).live()
    printer = Printer()
    live._repr_pretty_(printer, False)
    assert "\x1b" not in printer.written and len(printer.written.splitlines()) == 3


KEPT_STYLES = {
    "color": r"#[0-9a-f]+|rgba?\([0-9, .%]+\)|[a-z]+",
    "font-family": r"('[^'\\\n]*'|[A-Za-z-]+)(,\s*('[^'\\\n]*'|[A-Za-z-]+))*",
    "font-size": r"[0-9.]+(px|em|%)",
    "line-height": r"normal|[0-9.]+(px|em|%)?",
    "margin": r"(([0-9.]+(px|em|%)|0|auto)\s*){1,4}",
    "max-width": r"[0-9.]+(px|em|%)|none",
    "overflow-x": r"visible|hidden|scroll|auto",
    "padding": r"(([0-9.]+(px|em|%)|0)\s*){1,4}",
    "text-align": r"left|right|center|justify",
    "white-space": r"normal|pre|nowrap|pre-wrap|pre-line",
    "width": r"[0-9.]+(px|em|%)|auto",
    "word-break": r"normal|keep-all|break-all",
}
"""Of the properties that JupyterLab 4 keeps in a notebook it does not trust (`packages/apputils/src/sanitizer.ts`) those used here, and
the values that it lets pass: one that fails is removed without a word."""


@pytest.mark.parametrize("one", shown(), ids=lambda one: type(one).__name__)
def test_a_notebook_that_is_not_trusted_keeps_every_style(one: Any) -> None:
    page = Tags(one._repr_html_())
    styles = [attributes["style"] for tag, attributes in page.found if "style" in attributes and tag != "iframe"]
    assert styles
    for style in styles:
        for rule in filter(None, (rule.strip() for rule in style.split(";"))):
            name, _, value = rule.partition(":")
            assert name in KEPT_STYLES, f"{name} is removed"
            assert re.fullmatch(KEPT_STYLES[name], value.strip()), rule


def test_names_in_an_answer_are_no_markup() -> None:
    data = recording("linear_forward").read_bytes()
    other = highwater.load(data)
    other._name = "<script>alert(1)</script>"
    assert "<script>" not in highwater.load(data).diff(other)._repr_html_()


def test_a_table_has_a_head() -> None:
    live = highwater.load(recording("oom_gpt2_8gib")).live("oom")
    page = Tags(live._repr_html_())
    assert {tag for tag, _ in page.found} <= PLAIN_TAGS
    assert len(page.only("tr")) == 1 + 10
    assert f"{live.num_rows:,} live blocks, {len(live)} columns; {live.num_rows - 10:,} more rows" in page.text
    assert len(re.findall(r"0x[0-9a-f]{9,}", page.text)) == 10
    exact = f"{live.column('size_bytes').tolist()[0]:,} bytes"
    assert exact in [cell.get("title") for cell in page.only("td")]


def test_an_empty_table_has_its_columns() -> None:
    lifetimes = highwater.load({"segments": [], "device_traces": []}).lifetimes()
    page = Tags(lifetimes._repr_html_())
    assert len(page.only("th")) == len(lifetimes.columns)
    assert "0 lifetimes" in page.text and "more" not in page.text


def test_the_head_is_the_first_rows() -> None:
    lifetimes = highwater.load(recording("leak_grows")).lifetimes()
    assert lifetimes.head().to_dicts() == lifetimes.to_dicts()[:5]
    assert lifetimes.head(10**6).num_rows == lifetimes.num_rows
    assert lifetimes.head(0).to_dicts() == []


def test_where_is_the_call_site_of_the_report() -> None:
    snapshot = highwater.load(recording("oom_gpt2_8gib"))
    totals: dict[str, int] = {}
    for row in snapshot.live().to_dicts():
        totals[row["where"]] = totals.get(row["where"], 0) + row["size_bytes"]
    for site in snapshot.report()["devices"][0]["at_peak"]["call_sites"]:
        assert totals[site["place"]] == site["bytes"]
    assert snapshot.timeline().column("where").tolist()[-1]


def test_the_state_at_the_error_is_that_of_its_entry() -> None:
    snapshot = highwater.load(recording("oom_gpt2_8gib"))
    (event,) = snapshot.report()["devices"][0]["oom"]
    assert snapshot.live("oom").to_dicts() == snapshot.live(event["entry"]).to_dicts()
    assert snapshot.live("peak").to_dicts() == snapshot.live().to_dicts()
    with pytest.raises(highwater.SnapshotError, match="no request failed"):
        highwater.load(recording("linear_forward")).live("oom")


def test_pandas_takes_a_table() -> None:
    pandas = pytest.importorskip("pandas")
    live = highwater.load(recording("gpt2_late_recording")).live()
    frame = live.to_pandas()
    assert list(frame.columns) == live.columns and len(frame) == live.num_rows
    for name in live.columns:
        values = [None if value is pandas.NA else value for value in frame[name].tolist()]
        assert values == live.column(name).tolist(), name
    assert live.column("alloc_entry").null_count and frame["alloc_entry"].isna().sum() == live.column("alloc_entry").null_count
    by_place = frame.groupby("where", observed=True)["size_bytes"].sum()
    assert by_place.sum() == sum(live.column("size_bytes").tolist())
