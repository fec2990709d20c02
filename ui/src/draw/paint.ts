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

/** Writes the pixels of a stacked picture, rows of `width` from the top. What lies above a column's smallest total is paler. */
export function paintStacked(picture: StackedIds, window: StackedWindow, paint: Paint, out: Uint32Array): void {
  const {ids} = picture;
  const {width, height, lowBytes, highBytes} = window;
  const {colours, background, before, matches} = paint;
  const {key, lut} = colours;
  const isPale = paint.idle === 'pale';
  const bytesPerPixel = (highBytes - lowBytes) / height;
  for (let column = 0; column < width; column++) {
    const steady = (picture.lowBytes[column] - lowBytes) / bytesPerPixel;
    let below = 0;
    let at = column * height;
    let pixel = (height - 1) * width + column;
    for (let y = 0; y < height; y++, at++, pixel -= width) {
      const id = ids[at];
      if (id === 0) {
        out[pixel] = background;
        below = 0;
        continue;
      }
      const row = (id & ID_MASK) - 1;
      let colour = lut[key[row]];
      // The lower edge of a band that is thick enough to have one.
      if ((id & ID_MASK) !== below && y + 2 < height && (ids[at + 2] & ID_MASK) === row + 1) colour = darker(colour);
      below = id & ID_MASK;
      if (y >= steady) colour = halfway(colour, background);
      if (row < before && ((column + y) & 7) < 2) colour = halfway(colour, background);
      if (id & ID_IDLE) {
        if (isPale) colour = halfway(halfway(colour, background), background);
        else if ((column - y) & 4) colour = darker(darker(colour));
      }
      if (matches !== undefined && matches[row] === 0) colour = faded(colour, background);
      out[pixel] = colour;
    }
  }
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
