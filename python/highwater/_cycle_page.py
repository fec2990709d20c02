"""Reference cycles drawn: as a page of its own, and in Graphviz's language."""

from __future__ import annotations

import json
from collections.abc import Iterator
from html import escape

from highwater._cycle_report import Cycle, Kept, Report
from highwater._references import Step

_CYCLES = 50
_TENSORS = 6
_LETTER = 7.3
_ROW = 70
_BOX = 30
_GAP = 24

_STYLE = """
:root { color-scheme: light dark; --line: #888; --box: #f3f3f3; --tensor: #ffe3c2; --text: #222; --page: #fff }
@media (prefers-color-scheme: dark) { :root { --box: #2c2c2c; --tensor: #5c3c14; --text: #ddd; --page: #181818 } }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 75rem; margin: 2rem auto; padding: 0 1rem;
  color: var(--text); background: var(--page) }
h1 { font-size: 1.3rem } h2 { font-size: 1.05rem; margin-top: 2.5rem }
pre, text { font: 12px/1.5 ui-monospace, monospace } pre { overflow-x: auto } .drawing { overflow-x: auto }
text { fill: var(--text) } rect { fill: var(--box); stroke: var(--line) } .tensor rect { fill: var(--tensor) }
path { fill: none; stroke: var(--line); marker-end: url(#tip) } marker path { fill: var(--line); marker-end: none }
"""


def dot(report: Report) -> str:
    """The cycles and the ways to their tensors; a tensor is red."""
    nodes: dict[int, str] = {}
    edges: dict[tuple[int, int, str], None] = {}
    tensors: dict[int, str] = {}
    for cycle in report.cycles:
        for kept in cycle.tensors:
            for source, target in _links(kept.cycle, kept.cycle[0].number if kept.cycle else kept.number):
                nodes.setdefault(source.number, source.label)
                edges[source.number, target, source.reference.strip()] = None
            for source, target in _links(kept.path, kept.number):
                nodes.setdefault(source.number, source.label)
                edges[source.number, target, source.reference.strip()] = None
            tensors[kept.number] = kept.text
    lines = ["digraph cycles {", "  node [shape=box];", "  rankdir=LR;"]
    lines += [f"  n{number} [label={_quoted(text)}, color=red];" for number, text in tensors.items()]
    lines += [f"  n{number} [label={_quoted(label)}];" for number, label in nodes.items() if number not in tensors]
    lines += [f"  n{source} -> n{target} [label={_quoted(text)}];" for source, target, text in edges]
    return "\n".join([*lines, "}", ""])


def _links(steps: tuple[Step, ...], end: int) -> Iterator[tuple[Step, int]]:
    """Each step, with the number of the object that comes next."""
    return zip(steps, [*(step.number for step in steps[1:]), end], strict=True) if steps else iter(())


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def page(report: Report) -> str:
    """The report as HTML: no script, and nothing is loaded."""
    parts = [
        "<!DOCTYPE html>",
        '<html lang="en"><head><meta charset="utf-8"><title>Reference cycles</title>',
        '<meta name="viewport" content="width=device-width">',
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">",
        f"<style>{_STYLE}</style></head><body>",
        '<svg width="0" height="0" aria-hidden="true"><defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" '
        'markerWidth="7" markerHeight="7" orient="auto"><path d="M0 0L8 4L0 8z"/></marker></defs></svg>',
        f"<h1>{escape(report.headline or report.text)}</h1>",
    ]
    for cycle in report.cycles[:_CYCLES]:
        title, _, rest = cycle.text.partition("\n")
        parts += [f"<h2>{escape(title)}</h2>", f'<div class="drawing">{_drawing(cycle)}</div>', f"<pre>{escape(rest)}</pre>"]
    if len(report.cycles) > _CYCLES:
        parts.append(f"<p>and {len(report.cycles) - _CYCLES:,} more cycles, with fewer bytes</p>")
    return "\n".join([*parts, "</body></html>", ""])


class _Canvas:
    """Boxes and arrows."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._width = 0.0
        self._height = 0.0

    def box(self, x: float, y: float, text: str, *, is_tensor: bool = False) -> float:
        """Draws a box, and says where it ends."""
        width = len(text) * _LETTER + 16
        kind = ' class="tensor"' if is_tensor else ""
        self._parts.append(
            f'<g{kind}><rect x="{x:.0f}" y="{y:.0f}" width="{width:.0f}" height="{_BOX}" rx="4"/>'
            f'<text x="{x + 8:.0f}" y="{y + 19:.0f}">{escape(text)}</text></g>'
        )
        self._width = max(self._width, x + width + 10)
        self._height = max(self._height, y + _BOX + 10)
        return x + width

    def arrow(self, way: str) -> None:
        """Draws an arrow."""
        self._parts.append(f'<path d="{way}"/>')

    def word(self, x: float, y: float, text: str) -> float:
        """Writes beside an arrow, and says where that ends."""
        self._parts.append(f'<text x="{x:.0f}" y="{y:.0f}">{escape(text)}</text>')
        end = x + len(text) * _LETTER
        self._width = max(self._width, end + 10)
        self._height = max(self._height, y + 16)
        return end

    def svg(self, title: str) -> str:
        """The drawing."""
        extent = f'width="{self._width:.0f}" height="{self._height:.0f}"'
        return f'<svg {extent} role="img" aria-label="{escape(title)}">{"".join(self._parts)}</svg>'


def _drawing(cycle: Cycle) -> str:
    """The cycle as a column, and the ways to the tensors to its right."""
    canvas = _Canvas()
    left = 40.0
    rows = {step.number: at for at, step in enumerate(cycle.steps)}
    on_cycle = {kept.number: kept for kept in cycle.tensors if not kept.path}
    ends = {}
    for at, step in enumerate(cycle.steps):
        top = at * _ROW + 5
        kept = on_cycle.get(step.number)
        ends[step.number] = canvas.box(left, top, kept.text if kept else step.label, is_tensor=kept is not None)
        if at + 1 < len(cycle.steps):
            canvas.arrow(f"M{left + 20} {top + _BOX}V{top + _ROW}")
        else:
            canvas.arrow(f"M{left + 20} {top + _BOX}V{top + _BOX + 22}H12V20H{left}")
        canvas.word(left + 28, top + _BOX + 18, step.reference.strip())
    taken: set[int] = set()
    free = len(cycle.steps)
    for kept in [kept for kept in cycle.tensors if kept.path][:_TENSORS]:
        row = rows.get(kept.path[0].number)
        if row is None or row in taken:
            row, free = free, free + 1
        taken.add(row)
        _chain(canvas, kept, row * _ROW + 5, left, ends if row < len(cycle.steps) else {})
    return canvas.svg(cycle.text.partition("\n")[0])


def _chain(canvas: _Canvas, kept: Kept, top: float, left: float, ends: dict[int, float]) -> None:
    """A way to a tensor, from left to right; its first object may be drawn already."""
    x = left
    for step in kept.path:
        x = ends.get(step.number) or canvas.box(x, top, step.label)
        end = canvas.word(x + _GAP / 2, top + 13, step.reference.strip()) + _GAP / 2
        canvas.arrow(f"M{x:.0f} {top + 18}H{end:.0f}")
        x = end
    canvas.box(x, top, kept.text, is_tensor=True)
