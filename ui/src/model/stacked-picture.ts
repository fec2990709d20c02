/** A stacked picture over the x axis: for each pixel column one moment, and its bands one above the other. */

import {type Axis, type AxisRange, entriesOfColumn} from './axis';
import {type Bands, fillColumn} from './column-ids';

/** What to draw. */
export interface StackedWindow {
  /** In device pixels. */
  readonly width: number;
  readonly height: number;
  readonly x: AxisRange;
  /** Bytes at the lower and the upper edge. */
  readonly lowBytes: number;
  readonly highBytes: number;
}

/** The picture, before it has colours. */
export interface StackedIds {
  /** `width` columns of `height` ids, each lowest first. */
  readonly ids: Uint32Array;
  /** For each column, the entry after which it is. */
  readonly entries: Uint32Array;
  /** For each column, the total after that entry, in bytes. */
  readonly highBytes: Float64Array;
  /** For each column, the smallest total that it covers: memory above was not in use throughout. */
  readonly lowBytes: Float64Array;
}

/** The ids of a picture that is done with: their memory is used again if it fits. */
export type SpareIds = Uint32Array | undefined;

/** What is stacked. Totals are in units; stretches are of entries, from the first up to and without the second. */
export interface Stacked {
  /** The largest total in a stretch, and the first entry after which it is. */
  highest(from: number, to: number): {entry: number; total: number};
  /** The smallest. */
  lowest(from: number, to: number): number;
  /** What is there after an entry. */
  bandsAfter(entry: number): Bands;
}

/** Draws the ids. `entries` is how many there are, at least 1. */
export function drawStacked(
  axis: Axis,
  entries: number,
  unitBytes: number,
  window: StackedWindow,
  stacked: Stacked,
  spare?: SpareIds,
): StackedIds {
  const {width, height} = window;
  const picture: StackedIds = {
    ids: spare?.length === width * height ? spare : new Uint32Array(width * height),
    entries: new Uint32Array(width),
    highBytes: new Float64Array(width),
    lowBytes: new Float64Array(width),
  };
  const units = {
    low: window.lowBytes / unitBytes,
    perPixel: (window.highBytes - window.lowBytes) / height / unitBytes,
  };
  const perColumn = (window.x.to - window.x.from) / width;
  let last = {from: -1, to: -1};
  for (let column = 0; column < width; column++) {
    const from = window.x.from + column * perColumn;
    if (from + perColumn <= axis.range.from || from >= axis.range.to) {
      last = {from: -1, to: -1};
      picture.ids.fill(0, column * height, (column + 1) * height);
      continue;
    }
    const covered = entriesOfColumn(axis, entries, from, from + perColumn);
    const at = column * height;
    if (covered.from === last.from && covered.to === last.to) {
      // Zoomed in until columns show the same entry.
      picture.ids.copyWithin(at, at - height, at);
      picture.entries[column] = picture.entries[column - 1];
      picture.highBytes[column] = picture.highBytes[column - 1];
      picture.lowBytes[column] = picture.lowBytes[column - 1];
      continue;
    }
    last = covered;
    const {entry, total} = stacked.highest(covered.from, covered.to);
    const low = covered.to - covered.from === 1 ? total : stacked.lowest(covered.from, covered.to);
    picture.entries[column] = entry;
    picture.highBytes[column] = total * unitBytes;
    picture.lowBytes[column] = low * unitBytes;
    fillColumn(stacked.bandsAfter(entry), picture.ids, at, height, units);
  }
  return picture;
}
