/** Recordings on one axis: by iteration, by entry, or by time. */

import type {Curve} from '../data/curves';

/** What stands at one place of the axis. */
export const ALIGNMENTS = ['iteration', 'entry', 'time'] as const;
export type Alignment = (typeof ALIGNMENTS)[number];

/** Whether all of them can be aligned so. */
export function canAlign(curves: readonly Curve[], alignment: Alignment): boolean {
  switch (alignment) {
    case 'iteration':
      return curves.every(({iterations}) => iterations.length > 0);
    case 'time':
      return curves.every(({time_us: times}) => times !== undefined);
    case 'entry':
      return true;
  }
}

/** The first of `ALIGNMENTS` that fits all. */
export function alignmentOf(curves: readonly Curve[]): Alignment {
  return ALIGNMENTS.find(alignment => canAlign(curves, alignment)) ?? 'entry';
}

/**
 * A curve's parts on an axis: where each begins, and where the last ends.
 *
 * By iteration, iteration `i` lies from `i` to `i + 1`; what was recorded before the first, from -1 to 0.
 */
export interface Aligned {
  readonly curve: Curve;
  readonly positions: Float64Array;
}

export function aligned(curve: Curve, alignment: Alignment): Aligned {
  const parts = curve.bytes.length;
  const entryOf = (part: number) => (part < parts ? Math.ceil((part * curve.entries) / parts) : curve.entries);
  const place = {
    entry: entryOf,
    time: (part: number) => curve.time_us?.[part] ?? 0,
    iteration: (part: number) => iterationAt(curve, entryOf(part)),
  }[alignment];
  return {curve, positions: Float64Array.from({length: parts + 1}, (_, part) => place(part))};
}

/** Where an entry lies between iterations: 2.5 is halfway through the third. */
export function iterationAt({iterations, entries}: Curve, entry: number): number {
  const last = iterations.length - 1;
  if (last < 0) return 0;
  const [first] = iterations[0];
  if (entry < first) return entry / first - 1;
  const end = iterations[last][1];
  if (entry >= end) return last + 1 + (entry - end) / Math.max(1, entries - end);
  let low = 0;
  let high = last;
  while (low < high) {
    const middle = (low + high + 1) >>> 1;
    if (iterations[middle][0] <= entry) low = middle;
    else high = middle - 1;
  }
  // What lies between two iterations belongs to the one before.
  const [begin] = iterations[low];
  const next = low < last ? iterations[low + 1][0] : end;
  return low + (entry - begin) / (next - begin);
}

/** The part of a curve at a place; -1 where it has none. */
export function partAt({positions}: Aligned, place: number): number {
  const last = positions.length - 1;
  if (last < 1 || place < positions[0] || place >= positions[last]) return -1;
  let low = 0;
  let high = last - 1;
  while (low < high) {
    const middle = (low + high + 1) >>> 1;
    if (positions[middle] <= place) low = middle;
    else high = middle - 1;
  }
  return low;
}

/** The axis that holds all of them. */
export function wholeAxis(all: readonly Aligned[]): {from: number; to: number} {
  const from = Math.min(...all.map(({positions}) => positions[0]));
  const to = Math.max(...all.map(({positions}) => positions[positions.length - 1]));
  return Number.isFinite(from) && to > from ? {from, to} : {from: 0, to: 1};
}

/** The highest of all of them, in bytes, at least 1. */
export function highestOf(curves: readonly Curve[]): number {
  return Math.max(1, ...curves.flatMap(({peak, reserved_peak: reserved}) => [peak.bytes, reserved.bytes]));
}
