"""HTML for notebooks, which bring styles of their own and remove much that they do not trust.

JupyterLab breaks and joins the lines of a ``<pre>``, and nbconvert sets it in a proportional font; in a notebook that is not trusted
JupyterLab removes ``<style>``, ``<svg>`` and the source of an ``<iframe>``. Inline styles, tables, and pictures as data survive all of
them. VS Code puts HTML into its output as it is (``renderHTML`` of its extension ``notebook-renderers``), and in a workspace that is not
trusted shows ``text/plain`` instead: ``pretty`` writes it. Colab shows the HTML as it is, each output in a frame of its own
("Advanced outputs", its notebook of snippets).
"""

from __future__ import annotations

import base64
import html
from collections.abc import Callable, Sequence
from typing import Any

FONT = "font-family: Menlo, 'DejaVu Sans Mono', Consolas, monospace"

PREFORMATTED = f"{FONT}; font-size: 12px; line-height: normal; white-space: pre; word-break: normal; overflow-x: auto; margin: 0"

CELL = f"{FONT}; font-size: 12px; white-space: nowrap; padding: 2px 8px; text-align: "


def preformatted(text: str) -> str:
    """Text in a fixed font, with its own lines; a line that is wider than the cell scrolls."""
    return f'<pre style="{PREFORMATTED}">{html.escape(text)}</pre>'


def pretty(printer: Any, shown: object, text: Callable[[], str]) -> None:
    """Prints the text of an object in IPython; inside a list or a dict, prints the single line of ``repr``."""
    is_inside = len(getattr(printer, "stack", ())) > 1
    printer.text(repr(shown) if is_inside else text().rstrip("\n"))


def picture(svg: str, label: str, width: int) -> str:
    """A drawing as an image that carries its data, at most ``width`` pixels wide."""
    data = base64.b64encode(svg.encode()).decode()
    style = f"width: 100%; max-width: {width}px"
    return f'<img alt="{html.escape(label)}" src="data:image/svg+xml;base64,{data}" style="{style}">'


def table(titles: Sequence[str], rows: Sequence[Sequence[Cell]], below: str) -> str:
    """A table, and a line below it."""
    aligned = [_alignment(column) for column in zip(*rows, strict=True)] or ["left"] * len(titles)
    head = "".join(
        f'<th style="{CELL}{align}">{html.escape(title)}</th>' for title, align in zip(titles, aligned, strict=True)
    )
    body = "".join(
        "<tr>" + "".join(_cell(cell, align) for cell, align in zip(row, aligned, strict=True)) + "</tr>" for row in rows
    )
    rows_of_table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return f'<div style="overflow-x: auto">{rows_of_table}</div><p>{html.escape(below)}</p>'


def text_table(titles: Sequence[str], rows: Sequence[Sequence[Cell]], below: str) -> str:
    """The same in columns of text."""
    columns = [[title, *(_printable(row[at].text) for row in rows)] for at, title in enumerate(titles)]
    aligned = [_alignment(column) for column in zip(*rows, strict=True)] or ["left"] * len(titles)
    set_out = []
    for column, align in zip(columns, aligned, strict=True):
        width = max(map(len, column))
        set_out.append([text.rjust(width) if align == "right" else text.ljust(width) for text in column])
    lines = ["  ".join(cells).rstrip() for cells in zip(*set_out, strict=True)]
    return "\n".join([*lines, below])


def _printable(text: str) -> str:
    """Names come from the file, and must not move the cursor."""
    return "".join(c if c.isprintable() else "?" for c in text)


class Cell:
    """Text of a cell; ``title`` is said where the pointer rests."""

    __slots__ = ("is_number", "text", "title")

    def __init__(self, text: str, *, title: str = "", is_number: bool = False) -> None:
        self.text = text
        self.title = title
        self.is_number = is_number


def _alignment(column: Sequence[Cell]) -> str:
    return "right" if any(cell.is_number for cell in column) else "left"


def _cell(cell: Cell, align: str) -> str:
    title = f' title="{html.escape(cell.title)}"' if cell.title else ""
    return f'<td style="{CELL}{align}"{title}>{html.escape(cell.text)}</td>'
