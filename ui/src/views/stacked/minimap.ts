/** The whole recording in a strip, with the visible stretch in it. */

import type {Ink, Pen} from '../../draw/overlay';
import type {Viewport} from '../../draw/viewport';
import type {AxisRange} from '../../model/axis';
import type {StackedPicture} from '../../worker/pictures';

/** Its height. */
export const MINIMAP_CSS = 40;

/** Draws the strip at the origin, as wide as the plot. */
export function drawMinimap(pen: Pen, overview: StackedPicture, viewport: Viewport, whole: AxisRange, ink: Ink): void {
  const {highBytes, reservedBytes, window} = overview;
  const {widthCss, x} = viewport;
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
  area(reservedBytes, ink.reserved, 0.2);
  area(highBytes, ink.faint, 0.75);
  const span = whole.to - whole.from;
  const from = ((x.from - whole.from) / span) * widthCss;
  const to = ((x.to - whole.from) / span) * widthCss;
  if (to - from >= widthCss - 0.5) return;
  pen.fillStyle = ink.accent;
  pen.globalAlpha = 0.18;
  pen.fillRect(from, 0, to - from, MINIMAP_CSS);
  pen.globalAlpha = 1;
  pen.strokeStyle = ink.accent;
  pen.strokeRect(from + 0.5, 0.5, Math.max(2, to - from - 1), MINIMAP_CSS - 1);
}
