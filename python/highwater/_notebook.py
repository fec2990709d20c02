"""The view of a snapshot in a notebook: its report, a timeline, and the viewer."""

from __future__ import annotations

import html as markup
from typing import TYPE_CHECKING

from highwater import _highwater
from highwater._table import Table

if TYPE_CHECKING:
    from highwater._snapshot import Snapshot

WIDTH, HEIGHT = 800, 120

MAX_PAGE_BYTES = 8 << 20
"""A larger page is not put into a notebook, which would hold it for good."""

VIEWER_HEIGHT = 720


def html(snapshot: Snapshot) -> str:
    """The report with a timeline of each device, and the viewer behind a click."""
    charts = "".join(timeline_svg(snapshot, device) for device in snapshot.devices)
    report = markup.escape(snapshot.text)
    return (
        f'<div class="highwater">{charts}'
        f'<details open><summary>Report</summary><pre style="line-height:1.3">{report}</pre></details>'
        f"{_viewer(snapshot)}</div>"
    )


def timeline_svg(snapshot: Snapshot, device: int) -> str:
    """Allocated over reserved bytes, the highest of each pixel."""
    table = Table(snapshot._native.envelope(device, WIDTH), "columns")
    reserved = table.column("reserved_bytes").tolist()
    allocated = table.column("allocated_bytes").tolist()
    top = max(reserved, default=0)
    if top == 0:
        return ""
    label = f"Device {device}: allocated and reserved bytes over the trace, {top:,} bytes reserved at most"
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" style="width:100%;max-width:{WIDTH}px" role="img" aria-label="{label}">'
        f"<title>{label}</title>"
        f'<path d="{_area(reserved, top)}" fill="#c8d3df"/>'
        f'<path d="{_area(allocated, top)}" fill="#3b76af"/></svg>'
    )


def _area(values: list[int], top: int) -> str:
    """The area under a step function, as a path."""
    step = WIDTH / len(values)
    points = [f"M0 {HEIGHT}"]
    for column, value in enumerate(values):
        y = HEIGHT * (1 - value / top)
        points.append(f"L{column * step:.1f} {y:.1f}L{(column + 1) * step:.1f} {y:.1f}")
    return "".join(points) + f"L{WIDTH} {HEIGHT}Z"


def _viewer(snapshot: Snapshot) -> str:
    """The page in a frame of its own, which may run its program and nothing else."""
    if not _highwater.ui_is_built():
        return "<p>This build of highwater has no viewer.</p>"
    page = snapshot.to_html(what_if=False) or ""
    if len(page) > MAX_PAGE_BYTES:
        return "<p>The snapshot is too large for a notebook: <code>snapshot.view()</code> opens the viewer.</p>"
    return (
        "<details><summary>Open the viewer</summary>"
        f'<iframe title="highwater" sandbox="allow-scripts" loading="lazy" width="100%" height="{VIEWER_HEIGHT}" '
        f'style="border:0" srcdoc="{markup.escape(page)}"></iframe></details>'
    )
