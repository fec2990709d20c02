/** The small chart of totals over the whole recording. */

import type {Pen} from '../../draw/overlay';
import {cssOfBytes, cssOfPosition, type Viewport} from '../../draw/viewport';
import type {TotalsOverTime} from '../../worker/totals';

/** Colours of the theme. */
export interface TotalsInk {
  readonly area: string;
  readonly steady: string;
  readonly reserved: string;
}

/** The totals as an area, darker where they were held throughout, with reserved memory as a line over it. */
export function drawTotals(pen: Pen, viewport: Viewport, totals: TotalsOverTime, ink: TotalsInk): void {
  drawArea(pen, viewport, totals, totals.highBytes, ink.area);
  drawArea(pen, viewport, totals, totals.lowBytes, ink.steady);
  drawSteps(pen, viewport, totals.entries, totals.reservedBytes, ink.reserved, viewport.x.to);
}

function drawArea(pen: Pen, viewport: Viewport, {entries}: TotalsOverTime, bytes: Float64Array, colour: string): void {
  pen.fillStyle = colour;
  pen.beginPath();
  pen.moveTo(0, viewport.heightCss);
  for (let column = 0; column < entries.length; column++) {
    const left = cssOfPosition(viewport, entries[column]);
    const right = cssOfPosition(viewport, entries[column + 1] ?? viewport.x.to);
    const y = cssOfBytes(viewport, bytes[column]);
    pen.lineTo(left, y);
    pen.lineTo(right, y);
  }
  pen.lineTo(viewport.widthCss, viewport.heightCss);
  pen.closePath();
  pen.fill();
}

/** A step line: from each of `entries` on, the value beside it, up to `end`. */
export function drawSteps(
  pen: Pen,
  viewport: Viewport,
  entries: ArrayLike<number>,
  bytes: ArrayLike<number>,
  colour: string,
  end: number,
): void {
  pen.strokeStyle = colour;
  pen.lineWidth = 1.5;
  pen.setLineDash([]);
  pen.beginPath();
  let last: number | undefined;
  for (let i = 0; i < entries.length; i++) {
    if (bytes[i] === last) continue;
    const x = cssOfPosition(viewport, entries[i]);
    const y = cssOfBytes(viewport, bytes[i]);
    if (last === undefined) pen.moveTo(x, y);
    else {
      pen.lineTo(x, cssOfBytes(viewport, last));
      pen.lineTo(x, y);
    }
    last = bytes[i];
  }
  if (last !== undefined) pen.lineTo(cssOfPosition(viewport, end), cssOfBytes(viewport, last));
  pen.stroke();
  pen.lineWidth = 1;
}
