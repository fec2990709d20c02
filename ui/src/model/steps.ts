/** A total that changes at few entries: what would have been reserved. */

import {Extremes} from './extremes';

/** A step function of the entries: after `entries[i]`, up to the next, it is `values[i]`. */
export class StepSeries {
  readonly entries: Uint32Array;
  readonly values: Float64Array;
  private readonly highest: Extremes;

  /** `entries` is strictly ascending; before the first, the value is 0. */
  constructor(entries: Uint32Array, values: Float64Array) {
    this.entries = entries;
    this.values = values;
    this.highest = new Extremes(values, (a, b) => a > b);
  }

  /** The value after an entry. */
  at(entry: number): number {
    const place = this.placeOf(entry);
    return place < 0 ? 0 : this.values[place];
  }

  /** The largest value after any of the entries from `from` up to and without `to`. */
  maxIn(from: number, to: number): number {
    const first = this.placeOf(from);
    const last = this.placeOf(to - 1);
    if (last < 0) return 0;
    const best = this.values[this.highest.bestIn(Math.max(first, 0), last + 1)];
    return first < 0 ? Math.max(best, 0) : best;
  }

  /** The largest value of all; 0 of none. */
  get max(): number {
    return this.values.length === 0 ? 0 : this.values[this.highest.bestIn(0, this.values.length)];
  }

  /** The place of the last step at or before an entry; -1 if there is none. */
  private placeOf(entry: number): number {
    let low = 0;
    let high = this.entries.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (this.entries[middle] <= entry) low = middle + 1;
      else high = middle;
    }
    return low - 1;
  }
}
