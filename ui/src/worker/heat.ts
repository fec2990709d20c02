/** The picture of ranks over time. */

import {Transferred} from '../data/rpc';
import {BACKGROUND, pixelOf, type Shade, sizeColour} from '../draw/palette';
import {type HeatRows, type HeatWindow, paintHeat, STEPS} from '../model/heat';
import {bitmapOf, pixelsOf} from './pictures';

const NO_ROWS: HeatRows = {rows: 0, parts: 1, bytes: new Float32Array(), positions: new Float64Array()};

/** The colours from nothing to the highest. */
const COLOURS = Uint32Array.from({length: STEPS}, (_, step) => sizeColour(step, STEPS));

let rows: HeatRows | undefined;

/** What to draw, in device pixels. */
export interface HeatRequest extends HeatWindow {
  readonly shade: Shade;
}

/** Keeps the rows of which pictures are made. */
export function keepHeat(made: HeatRows): void {
  rows = made;
}

/** Paints what is seen of them. */
export async function heat(request: HeatRequest): Promise<Transferred<ImageBitmap>> {
  const {width, height} = request;
  const pixels = pixelsOf(width * height);
  paintHeat(rows ?? NO_ROWS, request, COLOURS, pixelOf(BACKGROUND[request.shade]), pixels);
  const bitmap = await bitmapOf(pixels, width, height);
  return new Transferred(bitmap, [bitmap]);
}
