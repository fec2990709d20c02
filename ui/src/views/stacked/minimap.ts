/** The whole recording in a strip, with the visible stretch in it. */

import type {Ink, Pen} from '../../draw/overlay';
import type {Viewport} from '../../draw/viewport';
import {type AxisRange, moved} from '../../model/axis';
import {onCard} from '../../model/outside';
import type {StackedPicture} from '../../worker/pictures';

/** Its height. */
export const MINIMAP_CSS = 40;

/** Draws the strip at the origin, as wide as the plot. */
export function drawMinimap(
  pen: Pen,
  overview: StackedPicture,
  viewport: Viewport,
  whole: AxisRange,
  ink: Ink,
  showsOutside: boolean,
): void {
  const {highBytes, reservedBytes, outsideBytes, window} = overview;
  const {widthCss} = viewport;
  const most = window.highBytes || 1;
  const columnCss = widthCss / window.width;
  const area = (values: Float64Array, colour: string, alpha: number) => {
    pen.globalAlpha = alpha;
    pen.fillStyle = colour;
    pen.beginPath();
    pen.moveTo(0, MINIMAP_CSS);
    for (let column = 0; column < window.width; column++) {
      const y = MINIMAP_CSS - (values[column] / most) * (MINIMAP_CSS - 4);
      pen.lineTo(column * columnCss, y);
      pen.lineTo((column + 1) * columnCss, y);
    }
    pen.lineTo(widthCss, MINIMAP_CSS);
    pen.closePath();
    pen.fill();
    pen.globalAlpha = 1;
  };
  if (showsOutside && outsideBytes.length > 0) {
    area(onCard(reservedBytes, outsideBytes), ink.reserved, 0.12);
  }
  area(reservedBytes, ink.reserved, 0.2);
  area(highBytes, ink.faint, 0.75);
  const frame = frameOf(viewport, whole);
  if (!frame) return;
  const {from, to} = frame;
  pen.fillStyle = ink.accent;
  pen.globalAlpha = 0.18;
  pen.fillRect(from, 0, to - from, MINIMAP_CSS);
  pen.globalAlpha = 1;
  pen.strokeStyle = ink.accent;
  pen.strokeRect(from + 0.5, 0.5, Math.max(2, to - from - 1), MINIMAP_CSS - 1);
  for (const edge of [from, to]) pen.fillRect(edge - 2, MINIMAP_CSS / 2 - 8, 4, 16);
}

/** What a drag does with the strip: shows a new stretch, moves the visible one, or moves one of its ends. */
export type Grip = 'range' | 'move' | 'from' | 'to';

/** How far beside its edge an end of the frame can be taken, and how wide its middle is at least. */
const HANDLE_CSS = 7;
const MIDDLE_CSS = 6;

/** What there is to take at a place of the strip. */
export function gripAt(viewport: Viewport, whole: AxisRange, xCss: number): Grip {
  const frame = frameOf(viewport, whole);
  if (!frame) return 'range';
  const {from, to} = frame;
  const middle = (from + to) / 2;
  // A narrow frame is taken at its middle, its ends beside it.
  const inside = Math.max((to - from) / 2 - HANDLE_CSS, Math.min(MIDDLE_CSS, to - from) / 2, 2);
  if (Math.abs(xCss - middle) <= inside) return 'move';
  if (xCss < middle && xCss >= from - HANDLE_CSS) return 'from';
  if (xCss > middle && xCss <= to + HANDLE_CSS) return 'to';
  return 'range';
}

/** The stretch that a drag from one position to another has reached, at least `least` long. */
export function dragged(grip: Grip, began: AxisRange, down: number, at: number, least: number): AxisRange {
  switch (grip) {
    case 'range':
      return at < down ? {from: Math.min(at, down - least), to: down} : {from: down, to: Math.max(at, down + least)};
    case 'move':
      return moved(began, at - down);
    case 'from':
      return {from: Math.min(began.from + at - down, began.to - least), to: began.to};
    case 'to':
      return {from: began.from, to: Math.max(began.to + at - down, began.from + least)};
  }
}

/** The position at a place of the strip. */
export function positionOnMinimap({widthCss}: Viewport, whole: AxisRange, xCss: number): number {
  return whole.from + (Math.min(Math.max(xCss, 0), widthCss) / widthCss) * (whole.to - whole.from);
}

/** Where the frame around the visible stretch is, in CSS pixels; `undefined` where all is visible. */
function frameOf({x, widthCss}: Viewport, whole: AxisRange): {from: number; to: number} | undefined {
  const span = whole.to - whole.from;
  const from = ((x.from - whole.from) / span) * widthCss;
  const to = ((x.to - whole.from) / span) * widthCss;
  return to - from >= widthCss - 0.5 ? undefined : {from, to};
}
