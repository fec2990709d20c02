"""Reference cycles drawn: as a page of its own, and in Graphviz's language."""

from __future__ import annotations

import json
from collections.abc import Iterator
from html import escape

from highwater._cycle_report import Cycle, Kept, Report
from highwater._references import Step

_KINDS = 50
_TENSORS = 6
_LETTER = 7.3
_ROW = 70
_BOX = 30
_GAP = 24

# The colours are those of the viewer, `ui/public/app.css`.
_STYLE = """
:root { color-scheme: light; --page: #f4f5f7; --panel: #fff; --text: #1a1d21; --faint: #5d6570; --line: #d0d5db;
  --danger: #c41e3a; --box: #e7eaee; --tensor: #cfe0f7; font: 13px/1.4 system-ui, sans-serif }
@media (prefers-color-scheme: dark) { :root { color-scheme: dark; --page: #0e1013; --panel: #191c21; --text: #e8eaed;
  --faint: #a0a8b3; --line: #343a42; --danger: #ff6b81; --box: #262b31; --tensor: #25456f } }
* { box-sizing: border-box }
body { margin: 0; color: var(--text); background: var(--page) }
header { display: flex; flex-wrap: wrap; gap: 4px 16px; align-items: baseline; padding: 8px 12px; background: var(--panel);
  border-bottom: 1px solid var(--line) }
h1, h2 { font-size: 13px; margin: 0 } header span, h2 span, .legend { color: var(--faint); font-weight: normal }
main { display: grid; gap: 12px; padding: 12px; max-width: 1400px } section { background: var(--panel); border: 1px solid var(--line);
  border-radius: 6px; padding: 10px 12px; min-width: 0 }
.drawing { overflow-x: auto; padding: 8px 0 } .legend { display: flex; gap: 16px } i { display: inline-block; width: 10px;
  height: 10px; border-radius: 2px; margin-right: 5px } i.tensor { background: var(--tensor) } i.cycle { background: var(--danger);
  height: 2px; width: 14px; vertical-align: middle }
summary { color: var(--faint); cursor: pointer } pre { overflow-x: auto; margin: 6px 0 0 } pre, text { font: 12px/1.5 ui-monospace, monospace }
text { fill: var(--text) } rect { fill: var(--box); stroke: var(--line) } .tensor rect { fill: var(--tensor) }
path { fill: none; stroke: var(--faint); marker-end: url(#tip) } path.cycle { stroke: var(--danger); marker-end: url(#turn) }
text.cycle { fill: var(--danger) } marker path { fill: var(--faint); stroke: none; marker-end: none } #turn path { fill: var(--danger) }
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
    kinds = report.kinds
    headline = report.headline or report.text
    parts = [
        "<!DOCTYPE html>",
        '<html lang="en"><head><meta charset="utf-8"><title>Reference cycles</title>',
        '<meta name="viewport" content="width=device-width">',
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">",
        f"<style>{_STYLE}</style></head><body>",
        f"<header><h1>highwater</h1><b>Reference cycles</b><span>{escape(headline)}</span></header><main>",
        f'<svg width="0" height="0" aria-hidden="true"><defs>{_tip("tip")}{_tip("turn")}</defs></svg>',
        '<div class="legend"><span><i class="tensor"></i>tensor</span>'
        '<span><i class="cycle"></i>references of the cycle: without any one of them it is none</span></div>',
    ]
    for kind in kinds[:_KINDS]:
        title, _, rest = kind.cycles[0].text.partition("\n")
        others = f" <span>{escape(kind.others)}</span>" if kind.others else ""
        parts += [
            f'<section><h2>{escape(title)}{others}</h2><div class="drawing">{_drawing(kind.cycles[0])}</div>',
            f"<details><summary>as text</summary><pre>{escape(rest)}</pre></details></section>",
        ]
    if len(kinds) > _KINDS:
        parts.append(f"<p>and {len(kinds) - _KINDS:,} more kinds of cycles, with fewer bytes</p>")
    return "\n".join([*parts, "</main></body></html>", ""])


def _tip(name: str) -> str:
    """The head of an arrow."""
    extent = 'viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto"'
    return f'<marker id="{name}" {extent}><path d="M0 0L8 4L0 8z"/></marker>'


def _short(step: Step) -> str:
    """An object, with the last part of its file's path."""
    return step.label if step.file is None else step.label.replace(step.file, step.file.replace("\\", "/").rpartition("/")[2])


class _Canvas:
    """Boxes and arrows."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._width = 0.0
        self._height = 0.0

    def box(self, x: float, y: float, text: str, *, whole: str = "", is_tensor: bool = False) -> float:
        """Draws a box, and says where it ends; ``whole`` is what is said of it where there is room."""
        width = len(text) * _LETTER + 16
        kind = ' class="tensor"' if is_tensor else ""
        self._parts.append(
            f"<g{kind}><title>{escape(whole or text)}</title>"
            f'<rect x="{x:.0f}" y="{y:.0f}" width="{width:.0f}" height="{_BOX}" rx="4"/>'
            f'<text x="{x + 8:.0f}" y="{y + 19:.0f}">{escape(text)}</text></g>'
        )
        self._width = max(self._width, x + width + 10)
        self._height = max(self._height, y + _BOX + 10)
        return x + width

    def arrow(self, way: str, *, on_cycle: bool = False) -> None:
        """Draws an arrow."""
        self._parts.append(f'<path{_kind(on_cycle)} d="{way}"/>')

    def word(self, x: float, y: float, text: str, *, on_cycle: bool = False) -> float:
        """Writes beside an arrow, and says where that ends."""
        self._parts.append(f'<text{_kind(on_cycle)} x="{x:.0f}" y="{y:.0f}">{escape(text)}</text>')
        end = x + len(text) * _LETTER
        self._width = max(self._width, end + 10)
        self._height = max(self._height, y + 16)
        return end

    def svg(self, title: str) -> str:
        """The drawing."""
        extent = f'width="{self._width:.0f}" height="{self._height:.0f}"'
        return f'<svg {extent} role="img" aria-label="{escape(title)}">{"".join(self._parts)}</svg>'


def _kind(on_cycle: bool) -> str:
    return ' class="cycle"' if on_cycle else ""


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
        ends[step.number] = canvas.box(left, top, kept.text if kept else _short(step), whole=step.label, is_tensor=kept is not None)
        if at + 1 < len(cycle.steps):
            canvas.arrow(f"M{left + 20} {top + _BOX}V{top + _ROW}", on_cycle=True)
        else:
            canvas.arrow(f"M{left + 20} {top + _BOX}V{top + _BOX + 22}H12V20H{left}", on_cycle=True)
        canvas.word(left + 28, top + _BOX + 18, step.reference.strip(), on_cycle=True)
    taken: set[int] = set()
    free = len(cycle.steps)
    for kept in [kept for kept in cycle.tensors if kept.path][:_TENSORS]:
        row = rows.get(kept.path[0].number)
        if row is None or row in taken:
            row, free = free, free + 1
        taken.add(row)
        _chain(canvas, kept, row * _ROW + 5, left, ends if row < len(cycle.steps) else {})
    hidden = sum(bool(kept.path) for kept in cycle.tensors) - _TENSORS
    if hidden > 0:
        canvas.word(left, free * _ROW + 20, f"and {hidden:,} more tensors")
    return canvas.svg(cycle.text.partition("\n")[0])


def _chain(canvas: _Canvas, kept: Kept, top: float, left: float, ends: dict[int, float]) -> None:
    """A way to a tensor, from left to right; its first object may be drawn already."""
    x = left
    for step in kept.path:
        x = ends.get(step.number) or canvas.box(x, top, _short(step), whole=step.label)
        end = canvas.word(x + _GAP / 2, top + 13, step.reference.strip()) + _GAP / 2
        canvas.arrow(f"M{x:.0f} {top + 18}H{end:.0f}")
        x = end
    canvas.box(x, top, kept.text, is_tensor=True)
