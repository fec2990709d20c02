/** A curve in parts: as an area, and as a line. */

import type {Aligned} from '../model/alignment';
import type {Pen} from './overlay';
import {cssOfBytes, cssOfPosition, type Viewport} from './viewport';

/** The totals as an area, the reserved bytes as a line over it. */
export function drawCurve(pen: Pen, viewport: Viewport, {curve, positions}: Aligned, area: string, line: string): void {
  const xs = Array.from(positions, position => cssOfPosition(viewport, position));
  if (xs.length < 2) return;
  pen.fillStyle = area;
  pen.beginPath();
  pen.moveTo(xs[0], viewport.heightCss);
  curve.bytes.forEach((bytes, part) => {
    const y = cssOfBytes(viewport, bytes);
    pen.lineTo(xs[part], y);
    pen.lineTo(xs[part + 1], y);
  });
  pen.lineTo(xs[xs.length - 1], viewport.heightCss);
  pen.closePath();
  pen.fill();
  if (curve.reserved_peak.bytes === 0) return;
  pen.strokeStyle = line;
  pen.lineWidth = 1;
  pen.setLineDash([]);
  pen.beginPath();
  curve.reserved_bytes.forEach((bytes, part) => {
    const y = cssOfBytes(viewport, bytes);
    if (part === 0) pen.moveTo(xs[0], y);
    pen.lineTo(xs[part], y);
    pen.lineTo(xs[part + 1], y);
  });
  pen.stroke();
}

/** A triangle that points down at a place on the upper edge. */
export function drawMarker(pen: Pen, x: number, colour: string): void {
  pen.fillStyle = colour;
  pen.beginPath();
  pen.moveTo(x - 4, 0);
  pen.lineTo(x + 4, 0);
  pen.lineTo(x, 7);
  pen.closePath();
  pen.fill();
}
