/** Histograms of lifetimes: by size, by how many entries they lasted, and by how long. */

import type {Column} from '../data/section';
import type {Lifetimes, Row} from './lifetimes';

/** Counts and bytes by bucket. */
export interface Histogram {
  /** The largest value of each bucket; of the last, no bound. A bucket begins after the one before. */
  readonly upTo: number[];
  readonly count: Float64Array;
  readonly bytes: Float64Array;
}

/** Bounds of sizes: 512 bytes and its doubles, up to what holds `most`. */
export function sizeBounds(most: number): number[] {
  const bounds = [512];
  while (bounds[bounds.length - 1] < most) bounds.push(bounds[bounds.length - 1] * 2);
  return bounds;
}

/** Bounds of numbers of entries: 1, 2, 4, …, up to what holds `most`. */
export function entryBounds(most: number): number[] {
  const bounds = [1];
  while (bounds[bounds.length - 1] < most) bounds.push(bounds[bounds.length - 1] * 2);
  return bounds;
}

/** Bounds of microseconds: 1, 2, 5, 10, 20, …, from 10 on, up to what holds `most`. */
export function timeBounds(most: number): number[] {
  const bounds = [10];
  for (let i = 1; bounds[bounds.length - 1] < most; i++) bounds.push([1, 2, 5][i % 3] * 10 ** (1 + Math.floor(i / 3)));
  return bounds;
}

/** Nothing yet, in some buckets. */
export function emptyHistogram(bounds: number[]): Histogram {
  return {upTo: bounds, count: new Float64Array(bounds.length), bytes: new Float64Array(bounds.length)};
}

/** Counts a row of some value: it belongs to the first bucket whose bound is at least the value. */
export function tally({upTo, count, bytes}: Histogram, value: number, rowBytes: number): void {
  const bucket = Math.min(bucketOf(upTo, value), upTo.length - 1);
  count[bucket]++;
  bytes[bucket] += rowBytes;
}

/** The first bucket whose bound is at least a value. */
export function bucketOf(bounds: readonly number[], value: number): number {
  let low = 0;
  let high = bounds.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (bounds[middle] < value) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** The histograms of a recording. */
export interface Histograms {
  /** Allocated in the recording, by size. */
  readonly sizes: Histogram;
  /** Active at the peak, by size, in the same buckets. */
  readonly sizesAtPeak: Histogram;
  /** Allocated and freed in the recording, by the entries between. */
  readonly entries: Histogram;
  /** The same by microseconds, where entries have times. */
  readonly times?: Histogram;
  /** Allocated in the recording and active at the dump. */
  readonly unfreed: {count: number; bytes: number};
}

export function histogramsOf(lifetimes: Lifetimes, atPeak: Iterable<Row>, clock?: Column): Histograms {
  const {rows, before, start, end, size, unitBytes, entries} = lifetimes;
  let largest = 0;
  let longestUs = 0;
  for (let row = 0; row < rows; row++) {
    if (size[row] > largest) largest = size[row];
    if (clock && row >= before && end[row] < entries) {
      const lasted = clock[end[row]] - clock[start[row]];
      if (lasted > longestUs) longestUs = lasted;
    }
  }
  const bounds = sizeBounds(largest * unitBytes);
  const sizes = emptyHistogram(bounds);
  const sizesAtPeak = emptyHistogram(bounds);
  const byEntries = emptyHistogram(entryBounds(entries));
  const byTime = clock && emptyHistogram(timeBounds(longestUs));
  const unfreed = {count: 0, bytes: 0};
  for (let row = before; row < rows; row++) {
    const bytes = size[row] * unitBytes;
    tally(sizes, bytes, bytes);
    if (end[row] >= entries) {
      unfreed.count++;
      unfreed.bytes += bytes;
    } else {
      tally(byEntries, end[row] - start[row], bytes);
      if (clock && byTime) tally(byTime, clock[end[row]] - clock[start[row]], bytes);
    }
  }
  for (const row of atPeak) tally(sizesAtPeak, size[row] * unitBytes, size[row] * unitBytes);
  return {sizes, sizesAtPeak, entries: byEntries, ...(byTime ? {times: byTime} : {}), unfreed};
}
