/** The two x axes: entries, and the time at which they were recorded. */

import type {Column} from '../data/section';

/** How positions on the x axis are told. */
export type AxisKind = 'entry' | 'time';

/** A stretch of the x axis: entries, or microseconds since the first entry. */
export interface AxisRange {
  readonly from: number;
  readonly to: number;
}

/** A range moved by a distance. */
export function moved(range: AxisRange, by: number): AxisRange {
  return {from: range.from + by, to: range.to + by};
}

/** A range pushed into the whole; as long as it was, if it fits. */
export function within(range: AxisRange, whole: AxisRange): AxisRange {
  const span = Math.min(range.to - range.from, whole.to - whole.from);
  const from = Math.min(Math.max(range.from, whole.from), whole.to - span);
  return {from, to: from + span};
}

/** From positions on an axis to entries. */
export interface Axis {
  readonly kind: AxisKind;
  /** The whole. */
  readonly range: AxisRange;
  /** The first entry at or after a position: from 0 to the number of entries. */
  entryAt(position: number): number;
  /** Where an entry lies. */
  positionOf(entry: number): number;
}

/** The axis on which each entry has the width 1. */
export function entryAxis(entries: number): Axis {
  return {
    kind: 'entry',
    range: {from: 0, to: entries},
    entryAt: position => Math.min(Math.max(Math.ceil(position), 0), entries),
    positionOf: entry => entry,
  };
}

/** The axis of time. `times` is ascending, one row an entry. */
export function timeAxis(times: Column): Axis {
  const last = times.length - 1;
  // The last entry needs a width too: that of an average one.
  const to = Math.max(times[last] + Math.max(1, times[last] / Math.max(1, last)), 1);
  return {
    kind: 'time',
    range: {from: 0, to},
    entryAt: position => firstAtOrAfter(times, position),
    positionOf: entry => (entry > last ? to : times[Math.max(0, entry)]),
  };
}

/** The stretch of another axis with the same entries; `null` if that is all of it. */
export function translated({from, to}: AxisRange, old: Axis, axis: Axis): AxisRange | null {
  const first = old.kind === 'entry' ? Math.floor(from) : old.entryAt(from);
  const last = old.kind === 'entry' ? Math.ceil(to) : old.entryAt(to);
  const low = axis.positionOf(first);
  // Entries of one moment take no time: the stretch has a length all the same.
  const range = within({from: low, to: Math.max(axis.positionOf(last), low + 1)}, axis.range);
  return range.from <= axis.range.from && range.to >= axis.range.to ? null : range;
}

function firstAtOrAfter(column: Column, value: number): number {
  let low = 0;
  let high = column.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (column[middle] < value) low = middle + 1;
    else high = middle;
  }
  return low;
}

/**
 * The entries that a pixel column shows: `from` up to and without `to`, never none.
 *
 * A column in which no entry lies shows the state after the entry before it.
 */
export function entriesOfColumn(axis: Axis, entries: number, from: number, to: number): {from: number; to: number} {
  const low = axis.kind === 'entry' ? Math.floor(from) : axis.entryAt(from);
  const high = axis.kind === 'entry' ? Math.floor(to) : axis.entryAt(to);
  if (high > low) return {from: clamp(low, entries), to: Math.min(Math.max(high, clamp(low, entries) + 1), entries)};
  const at = clamp(axis.kind === 'entry' ? low : low - 1, entries);
  return {from: at, to: at + 1};
}

function clamp(entry: number, entries: number): number {
  return Math.min(Math.max(entry, 0), entries - 1);
}
