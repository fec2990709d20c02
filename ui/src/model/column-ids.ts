/**
 * One pixel column of the timeline: which allocation each pixel shows.
 *
 * An id is a row plus one, 0 is none; its top bits say what else the pixel is. A pixel shows the allocation that covers
 * most of it.
 */

import type {TimelineIndex} from './timeline-index';

/** The row of an id, plus one. */
export const ID_MASK = 0x3fff_ffff;
/** Several allocations share the pixel. */
export const ID_SHARED = 0x8000_0000;
/** The allocation awaits its free. */
export const ID_PENDING = 0x4000_0000;

/** The rows that await their free for longer than an entry. */
export interface Pending {
  /** One byte a row: 1 if it is among them. */
  readonly isPending: Uint8Array;
  /** The entry of its `free_requested`. */
  readonly requestedAt: ReadonlyMap<number, number>;
}

/** The window of bytes that a column shows, in units of size. */
export interface ByteWindow {
  /** The total at the lower edge. */
  readonly low: number;
  readonly perPixel: number;
}

/**
 * Writes the ids of a column of `height` pixels to `out`, from `at` on, lowest first.
 *
 * `rows` are active after `entry`, in stacking order.
 */
export function fillColumn(
  index: TimelineIndex,
  rows: Uint32Array,
  entry: number,
  out: Uint32Array,
  at: number,
  height: number,
  window: ByteWindow,
  pending?: Pending,
): void {
  const {size} = index.lifetimes;
  const scale = 1 / window.perPixel;
  // In pixels above the lower edge. Summed in units, so that no rounding piles up.
  let units = -window.low;
  let bottom = units * scale;
  let pixel = 0;
  let sharers = 0;
  let bestId = 0;
  let bestCover = 0;
  for (let i = 0; i < rows.length && pixel < height; i++) {
    const row = rows[i];
    units += size[row];
    const top = units * scale;
    if (top > 0 && top > bottom) {
      let id = row + 1;
      if (pending?.isPending[row] && pending.requestedAt.get(row)! <= entry) id |= ID_PENDING;
      const low = Math.max(bottom, 0);
      if (top < pixel + 1) {
        sharers++;
        if (top - low > bestCover) {
          bestCover = top - low;
          bestId = id;
        }
      } else {
        if (pixel + 1 - low > bestCover) bestId = id;
        out[at + pixel++] = sharers > 0 ? (bestId | ID_SHARED) >>> 0 : bestId >>> 0;
        const whole = Math.min(Math.floor(top), height);
        while (pixel < whole) out[at + pixel++] = id >>> 0;
        bestCover = top - pixel;
        sharers = bestCover > 0 ? 1 : 0;
        bestId = sharers ? id : 0;
      }
    }
    bottom = top;
  }
  if (pixel < height && sharers > 0) out[at + pixel++] = sharers > 1 ? (bestId | ID_SHARED) >>> 0 : bestId >>> 0;
  out.fill(0, at + pixel, at + height);
}
