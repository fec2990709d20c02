/** The lifetimes of one device, as columns. */

import type {Column} from '../data/section';

/** A row of the lifetimes. */
export type Row = number;

/** The number of a trace entry. */
export type Entry = number;

/** What the timeline is made of: one row a lifetime, in order of `start`. */
export interface Lifetimes {
  readonly rows: number;
  /** Number of trace entries, at least 1. */
  readonly entries: number;
  /** So many rows at the start began before the first entry. */
  readonly before: number;
  readonly unitBytes: number;
  /** A row is active after entry `e` if `start[row] <= e < end[row]`. */
  readonly start: Column;
  readonly end: Column;
  /** In units. */
  readonly size: Column;
}

/** Whether a row is active after an entry. */
export function isLive(lifetimes: Lifetimes, row: Row, entry: Entry): boolean {
  return lifetimes.start[row] <= entry && entry < lifetimes.end[row];
}

/** The first row whose `start` is `entry` or later. */
export function firstRowFrom(lifetimes: Lifetimes, entry: Entry): Row {
  let low = 0;
  let high = lifetimes.rows;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (lifetimes.start[middle] < entry) low = middle + 1;
    else high = middle;
  }
  return low;
}
