/** Drawing a state's strips: pixels, and beside them the ids of what they show. */

import type {Abgr} from '../draw/paint';
import type {Strip} from '../model/state-layout';

/** The pixels of a state, and the ids of its strips. */
export interface Canvas {
  readonly pixels: Uint32Array;
  readonly width: number;
  readonly height: number;
  readonly top: number;
  readonly stripHeight: number;
  /** Of all visible strips. */
  readonly ids: Uint32Array;
}

/** What `runIn` gives: the same for every call. */
const RUN = {from: 0, to: 0};

/** The pixels of a stretch of a segment in a strip: from its left end, at least one. They hold until the next call. */
export function runIn(strip: Strip, fromUnits: number, units: number): typeof RUN | undefined {
  const low = Math.max(fromUnits, strip.fromUnits);
  const high = Math.min(fromUnits + units, strip.toUnits);
  if (high <= low) return undefined;
  const perUnit = strip.width / (strip.toUnits - strip.fromUnits);
  RUN.from = Math.floor((low - strip.fromUnits) * perUnit);
  RUN.to = Math.min(strip.width, Math.max(RUN.from + 1, Math.floor((high - strip.fromUnits) * perUnit)));
  return RUN;
}

/** Pixels of a strip from `from` up to and without `to`; `ids` is the place of the strip's first id. */
export function fill(
  canvas: Canvas,
  strip: Strip,
  ids: number,
  from: number,
  to: number,
  colour: Abgr,
  id: number,
): void {
  canvas.ids.fill(id, ids + from, ids + to);
  for (let line = 0; line < canvas.stripHeight; line++) {
    const y = strip.y - canvas.top + line;
    if (y < 0 || y >= canvas.height) continue;
    const at = y * canvas.width + strip.x;
    canvas.pixels.fill(colour, at + from, Math.min(at + to, (y + 1) * canvas.width));
  }
}

/** Lines across the pixels from `from` up to and without `to`. */
export function hatch(canvas: Canvas, strip: Strip, from: number, to: number, colour: Abgr): void {
  for (let line = 0; line < canvas.stripHeight; line++) {
    const y = strip.y - canvas.top + line;
    if (y < 0 || y >= canvas.height) continue;
    const at = y * canvas.width + strip.x;
    for (let x = from; x < to; x++) if ((x + line) & 4) canvas.pixels[at + x] = colour;
  }
}

/** A frame around them. */
export function outline(canvas: Canvas, strip: Strip, from: number, to: number, colour: Abgr): void {
  const {stripHeight, height, width, top, pixels} = canvas;
  for (let line = 0; line < stripHeight; line++) {
    const y = strip.y - top + line;
    if (y < 0 || y >= height) continue;
    const at = y * width + strip.x;
    if (line < 2 || line >= stripHeight - 2) pixels.fill(colour, at + from, at + to);
    pixels[at + from] = colour;
    pixels[at + to - 1] = colour;
  }
}
