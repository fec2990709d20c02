"""A snapshot in a notebook: its report, a timeline, and the viewer."""

from __future__ import annotations

import html as markup
from typing import TYPE_CHECKING

from highwater import _highwater
from highwater._html import picture, preformatted
from highwater._table import Table

if TYPE_CHECKING:
    from highwater._snapshot import Snapshot

WIDTH, HEIGHT = 800, 120

LINE = 100
"""Characters of a line of the report: as many as a notebook shows without scrolling."""

RESERVED, ALLOCATED = "#a9b8c8", "#3b76af"

MAX_PAGE_BYTES = 8 << 20
"""A larger page is not put into a notebook, which would hold it for good."""

VIEWER_HEIGHT = 720

UNTRUSTED = "This notebook is not trusted, so the viewer is not shown: trust it, run the cell again, or call snapshot.view()."


def html(snapshot: Snapshot) -> str:
    """The report with a timeline of each device, and the viewer behind a click."""
    charts = "".join(timeline(snapshot, device) for device in snapshot.devices)
    text = snapshot._native.report_text(snapshot.name, LINE)
    return (
        f'<div class="highwater">{charts}'
        f"<details open><summary>Report</summary>{preformatted(text)}</details>"
        f"{_viewer(snapshot)}</div>"
    )


def timeline(snapshot: Snapshot, device: int) -> str:
    """Allocated over reserved bytes, the highest of each pixel, as an image."""
    table = Table(snapshot._native.envelope(device, WIDTH), "columns")
    reserved = table.column("reserved_bytes").tolist()
    allocated = table.column("allocated_bytes").tolist()
    top = max(reserved, default=0)
    if top == 0:
        return ""
    label = (
        f"Device {device} over the trace: {_highwater.size(max(allocated))} allocated and "
        f"{_highwater.size(top)} reserved at most"
    )
    drawing = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}">'
        f'<path d="{_area(reserved, top)}" fill="{RESERVED}"/>'
        f'<path d="{_area(allocated, top)}" fill="{ALLOCATED}"/></svg>'
    )
    keys = "".join(
        f' <span style="color: {colour}">&#9632;</span> {name}'
        for colour, name in ((ALLOCATED, "allocated"), (RESERVED, "reserved"))
    )
    return f"{picture(drawing, label, WIDTH)}<div>{markup.escape(label)}{keys}</div>"


def _area(values: list[int], top: int) -> str:
    """The area under a step function, as a path."""
    step = WIDTH / len(values)
    points = [f"M0 {HEIGHT}"]
    for column, value in enumerate(values):
        y = HEIGHT * (1 - value / top)
        points.append(f"L{column * step:.1f} {y:.1f}L{(column + 1) * step:.1f} {y:.1f}")
    return "".join(points) + f"L{WIDTH} {HEIGHT}Z"


def _viewer(snapshot: Snapshot) -> str:
    """The page in a frame of its own, which may run its program and nothing else.

    Where a notebook removes the frame, the words in it are left.
    """
    if not _highwater.ui_is_built():
        return "<p>This build of highwater has no viewer.</p>"
    page = snapshot.to_html(what_if=False) or ""
    if len(page) > MAX_PAGE_BYTES:
        return "<p>The snapshot is too large for a notebook: <code>snapshot.view()</code> opens the viewer.</p>"
    return (
        "<details><summary>Open the viewer</summary>"
        f'<iframe title="highwater" sandbox="allow-scripts" loading="lazy" width="100%" height="{VIEWER_HEIGHT}" '
        f'style="border:0" srcdoc="{markup.escape(page)}">{UNTRUSTED}</iframe></details>'
    )
