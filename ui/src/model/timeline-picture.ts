/**
 * The picture of the timeline: each pixel column is the exact stack after the entry, of those that the column covers,
 * with the largest total.
 *
 * So nothing is dropped by a rule about counts, and the peak is in the picture at any zoom: `spec/viewer.md` 2.1.
 */

import {type Axis, type AxisRange, entriesOfColumn} from './axis';
import {fillColumn, type Pending} from './column-ids';
import type {TimelineIndex} from './timeline-index';

/** What to draw. */
export interface TimelineWindow {
  /** In device pixels. */
  readonly width: number;
  readonly height: number;
  readonly x: AxisRange;
  /** Bytes at the lower and the upper edge. */
  readonly lowBytes: number;
  readonly highBytes: number;
}

/** The picture, before it has colours. */
export interface TimelineIds {
  /** `width` columns of `height` ids, each lowest first. */
  readonly ids: Uint32Array;
  /** For each column, the entry after which it is. */
  readonly entries: Uint32Array;
  /** For each column, the total after that entry, in bytes. */
  readonly highBytes: Float64Array;
  /** For each column, the smallest total that it covers: memory above was not in use throughout. */
  readonly lowBytes: Float64Array;
}

/** Draws the ids. `into` is reused if it has the right size. */
export function drawTimeline(
  index: TimelineIndex,
  axis: Axis,
  window: TimelineWindow,
  pending?: Pending,
  into?: TimelineIds,
): TimelineIds {
  const {width, height} = window;
  const {unitBytes, entries} = index.lifetimes;
  const picture = into?.ids.length === width * height && into.entries.length === width ? into : emptyIds(width, height);
  const bytesPerPixel = (window.highBytes - window.lowBytes) / height;
  const bytes = {low: window.lowBytes / unitBytes, perPixel: bytesPerPixel / unitBytes};
  const perColumn = (window.x.to - window.x.from) / width;
  let live: Uint32Array | undefined;
  let last = {from: -1, to: -1};
  for (let column = 0; column < width; column++) {
    const from = window.x.from + column * perColumn;
    const covered = entriesOfColumn(axis, entries, from, from + perColumn);
    const at = column * height;
    if (from + perColumn <= axis.range.from || from >= axis.range.to) {
      picture.ids.fill(0, at, at + height);
      picture.entries[column] = covered.from;
      picture.highBytes[column] = 0;
      picture.lowBytes[column] = 0;
      last = {from: -1, to: -1};
      continue;
    }
    if (covered.from === last.from && covered.to === last.to) {
      picture.ids.copyWithin(at, at - height, at);
      picture.entries[column] = picture.entries[column - 1];
      picture.highBytes[column] = picture.highBytes[column - 1];
      picture.lowBytes[column] = picture.lowBytes[column - 1];
      continue;
    }
    last = covered;
    const {entry, total} = index.highestIn(covered.from, covered.to);
    const low = covered.to - covered.from === 1 ? total : index.lowestIn(covered.from, covered.to).total;
    picture.entries[column] = entry;
    picture.highBytes[column] = total * unitBytes;
    picture.lowBytes[column] = low * unitBytes;
    live = index.liveAt(entry, live?.buffer.byteLength ? new Uint32Array(live.buffer) : undefined);
    fillColumn(index, live, entry, picture.ids, at, height, bytes, pending);
  }
  return picture;
}

function emptyIds(width: number, height: number): TimelineIds {
  return {
    ids: new Uint32Array(width * height),
    entries: new Uint32Array(width),
    highBytes: new Float64Array(width),
    lowBytes: new Float64Array(width),
  };
}
