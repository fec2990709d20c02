/** From ids to colours: pure loops over typed arrays, made in the worker. */

import type {Column} from '../data/section';
import {ID_IDLE, ID_MASK} from '../model/column-ids';
import type {StackedIds, StackedWindow} from '../model/stacked-picture';

/** A colour as canvas image data has it in a 32-bit word on a little-endian machine: alpha, blue, green, red. */
export type Abgr = number;

/** Which colour a row has: `lut[key[row]]`. */
export interface RowColours {
  readonly key: Column;
  readonly lut: Uint32Array;
}

/** What a picture is coloured by. */
export interface Paint {
  readonly colours: RowColours;
  readonly background: Abgr;
  /** How the idle part of a band is told from the rest. */
  readonly idle: 'hatched' | 'pale';
  /** Rows below this one began before the recording. */
  readonly before: number;
  /** One byte a row, 1 for what is looked for; the rest is faded. */
  readonly matches?: Uint8Array | undefined;
}

/** Columns that are painted side by side: their pixels of one line fill a line of the processor's cache. */
const BLOCK = 16;

/** Writes the pixels of a stacked picture, rows of `width` from the top. What lies above a column's smallest total is paler. */
export function paintStacked(picture: StackedIds, window: StackedWindow, paint: Paint, out: Uint32Array): void {
  const {width, height} = window;
  const columns = new Uint32Array(BLOCK * height);
  for (let left = 0; left < width; left += BLOCK) {
    const count = Math.min(BLOCK, width - left);
    for (let i = 0; i < count; i++) paintColumn(picture, left + i, window, paint, columns, i * height);
    for (let y = 0; y < height; y++) {
      const line = (height - 1 - y) * width + left;
      for (let i = 0; i < count; i++) out[line + i] = columns[i * height + y];
    }
  }
}

/** Writes the pixels of a column to `out`, from `to` on, lowest first: run by run of pixels that show the same. */
function paintColumn(
  picture: StackedIds,
  column: number,
  window: StackedWindow,
  paint: Paint,
  out: Uint32Array,
  to: number,
): void {
  const {ids} = picture;
  const {height, lowBytes, highBytes} = window;
  const {background, before, matches} = paint;
  const {key, lut} = paint.colours;
  const steady = Math.ceil(((picture.lowBytes[column] - lowBytes) / (highBytes - lowBytes)) * height);
  const from = column * height;
  for (let y = 0; y < height; ) {
    const id = ids[from + y];
    let end = y + 1;
    while (end < height && ids[from + end] === id) end++;
    if (id === 0) {
      out.fill(background, to + y, to + end);
      y = end;
      continue;
    }
    const row = (id & ID_MASK) - 1;
    let colour = lut[key[row]];
    if (matches !== undefined && matches[row] === 0) colour = faded(colour, background);
    const isBandStart = y === 0 || ((ids[from + y - 1] ^ id) & ID_MASK) !== 0;
    const isPatterned = row < before || (id & ID_IDLE) !== 0;
    // The lower edge of a band that is thick enough to have one.
    const edge = isBandStart && end - y > 2 ? y : -1;
    for (; y < end; y++) {
      let pixel = y === edge ? darker(colour) : colour;
      if (y >= steady) pixel = halfway(pixel, background);
      if (isPatterned) pixel = patterned(pixel, id, row < before, column, y, paint);
      out[to + y] = pixel;
    }
  }
}

/** Stripes for what began before the recording, hatching or paleness for what is idle. */
function patterned(colour: Abgr, id: number, isBefore: boolean, column: number, y: number, paint: Paint): Abgr {
  let pixel = colour;
  if (isBefore && ((column + y) & 7) < 2) pixel = halfway(pixel, paint.background);
  if (id & ID_IDLE) {
    if (paint.idle === 'pale') pixel = halfway(halfway(pixel, paint.background), paint.background);
    else if ((column - y) & 4) pixel = darker(darker(pixel));
  }
  return pixel;
}

/** An eighth of a colour on its background. */
export function faded(colour: Abgr, background: Abgr): Abgr {
  return halfway(halfway(halfway(colour, background), background), background);
}

/** The mean of two colours. */
export function halfway(a: Abgr, b: Abgr): Abgr {
  return (((a & 0xfefefefe) >>> 1) + ((b & 0xfefefefe) >>> 1)) | 0xff000000;
}

/** Three quarters of a colour's light. */
export function darker(colour: Abgr): Abgr {
  const half = (colour >>> 1) & 0x7f7f7f;
  return (half + ((half >>> 1) & 0x3f3f3f)) | 0xff000000;
}
