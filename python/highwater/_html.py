"""HTML for notebooks, which bring styles of their own and remove much that they do not trust.

JupyterLab breaks and joins the lines of a ``<pre>``, and nbconvert sets it in a proportional font; in a notebook that is not trusted
JupyterLab removes ``<style>``, ``<svg>`` and the source of an ``<iframe>``. Inline styles, tables, and pictures as data survive all of
them, and VS Code and Colab show them as they are.
"""

from __future__ import annotations

import base64
import html
from collections.abc import Sequence

FONT = "font-family: Menlo, 'DejaVu Sans Mono', Consolas, monospace"

PREFORMATTED = f"{FONT}; font-size: 12px; line-height: 1.25; white-space: pre; word-break: normal; overflow-x: auto; margin: 0"

CELL = f"{FONT}; font-size: 12px; white-space: nowrap; padding: 2px 8px; text-align: "


def preformatted(text: str) -> str:
    """Text in a fixed font, with its own lines; a line that is wider than the cell scrolls."""
    return f'<pre style="{PREFORMATTED}">{html.escape(text)}</pre>'


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
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table><p>{html.escape(below)}</p>"


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
