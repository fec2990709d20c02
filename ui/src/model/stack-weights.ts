/** What each stack weighs: of a moment, of what a stretch allocated, or of bytes over their lifetimes. */

import type {Column} from '../data/section';
import {firstRowFrom, type Lifetimes, type Row} from './lifetimes';

/** Sums by stack. */
export interface StackWeights {
  /** In units of size, times what a row is weighed by. */
  readonly weight: Float64Array;
  /** Rows. */
  readonly count: Float64Array;
}

/** A stretch of entries: `from` up to and without `to`. */
export interface Stretch {
  readonly from: number;
  readonly to: number;
}

/** Of rows that are told one by one. */
export function weightsOf(
  stacks: number,
  stack: Column,
  size: Column,
  each: (see: (row: Row) => void) => void,
): StackWeights {
  const weight = new Float64Array(stacks);
  const count = new Float64Array(stacks);
  each(row => {
    weight[stack[row]] += size[row];
    count[stack[row]]++;
  });
  return {weight, count};
}

/** Of what a stretch allocated; `kept`: of that, what is still active after its last entry. */
export function allocatedIn(
  lifetimes: Lifetimes,
  stacks: number,
  stack: Column,
  {from, to}: Stretch,
  kept: boolean,
): StackWeights {
  const {start, end, size, rows, before} = lifetimes;
  const weight = new Float64Array(stacks);
  const count = new Float64Array(stacks);
  for (let row = Math.max(before, firstRowFrom(lifetimes, from)); row < rows && start[row] < to; row++) {
    if (kept && end[row] < to) continue;
    weight[stack[row]] += size[row];
    count[stack[row]]++;
  }
  return {weight, count};
}

/**
 * Of bytes times how long they were active within a stretch: in entries, or in what `times` counts, one row an entry.
 *
 * A lifetime that ends with the recording lasts to its last entry.
 */
export function lifetimesIn(
  lifetimes: Lifetimes,
  stacks: number,
  stack: Column,
  {from, to}: Stretch,
  times?: Column,
): StackWeights {
  const {start, end, size, rows} = lifetimes;
  const weight = new Float64Array(stacks);
  const count = new Float64Array(stacks);
  const last = times ? times.length - 1 : 0;
  for (let row = 0; row < rows && start[row] < to; row++) {
    if (end[row] <= from) continue;
    const first = Math.max(start[row], from);
    const until = Math.min(end[row], to);
    const length = times ? times[Math.min(until, last)] - times[Math.min(first, last)] : until - first;
    weight[stack[row]] += size[row] * length;
    count[stack[row]]++;
  }
  return {weight, count};
}
