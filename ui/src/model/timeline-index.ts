/**
 * What makes any moment and any maximum of a timeline quick to find.
 *
 * Ten million entries, measured in the prototype: built in a third of a second. Memory is what the live lists take, held
 * below `LIST_ROWS_MAX` rows, and 30 bytes for each bucket of 64 to 1,024 entries.
 */

import type {BandList} from './column-ids';
import {Extremes} from './extremes';
import {type Entry, firstRowFrom, type Lifetimes, type Row} from './lifetimes';
import type {Spare} from './spare';

/** Entries in a bucket, at least. */
const BUCKET_MIN = 64;
/** Entries in a bucket, at most: who looks for an extreme walks through two. */
const BUCKET_MAX = 1024;
/** Least distance of two live lists, in entries. */
const LIST_STRIDE_MIN = 1024;
/** About how many rows all live lists may have together. */
const LIST_ROWS_MAX = 2_000_000;

/** The extreme total of a stretch of entries, and where it is first reached. */
export interface Extreme {
  entry: Entry;
  /** In units. */
  total: number;
}

/** The index over the lifetimes of one device. */
export class TimelineIndex {
  readonly lifetimes: Lifetimes;
  /** Rows by the entry that ends them; rows that are active at the dump are not in it. */
  readonly byEnd: Uint32Array;
  /** The largest total of all, in units, and its entry. */
  readonly peak: Extreme;
  /** The most rows that are active at one of the live lists. */
  readonly liveMax: number;
  /** Entries between two live lists. */
  readonly stride: number;
  /** Entries in a bucket: more where little happens, as in reserved memory, for every bucket takes room. */
  private readonly bucket: number;

  /** The first row that starts in or after a bucket; one more for the end. */
  private readonly firstStart: Uint32Array;
  /** The first place in `byEnd` that ends in or after a bucket; one more for the end. */
  private readonly firstEnd: Uint32Array;
  /** The total before a bucket's first entry. */
  private readonly before: Float64Array;
  private readonly highest: Extremes;
  private readonly lowest: Extremes;
  /** Where the rows of each live list begin; one more for the end. */
  private readonly listFrom: Uint32Array;
  /** The first row that starts after a live list's entry. */
  private readonly listNext: Uint32Array;
  /** Rows that are active after entries 0, `stride`, 2 `stride`, …, ascending. */
  private readonly lists: Uint32Array;

  constructor(lifetimes: Lifetimes) {
    this.lifetimes = lifetimes;
    this.bucket = bucketOf(lifetimes);
    const buckets = Math.ceil(lifetimes.entries / this.bucket);
    this.firstStart = new Uint32Array(buckets + 1);
    this.firstEnd = new Uint32Array(buckets + 1);
    this.byEnd = sortByEnd(lifetimes, this.bucket, this.firstStart, this.firstEnd);

    this.before = new Float64Array(buckets);
    const highest = new Float64Array(buckets);
    const lowest = new Float64Array(buckets);
    this.sumUp(highest, lowest);
    this.highest = new Extremes(highest, (a, b) => a > b);
    this.lowest = new Extremes(lowest, (a, b) => a < b);
    this.peak = this.highestIn(0, lifetimes.entries);

    this.stride = strideOf(lifetimes);
    const lists = liveLists(lifetimes, this.stride);
    this.lists = lists.rows;
    this.listFrom = lists.from;
    this.listNext = lists.next;
    this.liveMax = lists.liveMax;
  }

  /** Bytes that the index holds beside the lifetimes. */
  get bytes(): number {
    const columns = [this.byEnd, this.firstStart, this.firstEnd, this.before, this.lists, this.listFrom, this.listNext];
    return columns.reduce((sum, column) => sum + column.byteLength, this.highest.bytes + this.lowest.bytes);
  }

  /** The total after an entry, in units. */
  totalAfter(entry: Entry): number {
    let found = 0;
    this.walk(Math.floor(entry / this.bucket), (at, after) => {
      if (at <= entry) found = after;
    });
    return found;
  }

  /** The largest total after any of the entries from `from` up to and without `to`, which must be after `from`. */
  highestIn(from: Entry, to: Entry): Extreme {
    return this.extremeIn(from, to, this.highest);
  }

  /** The smallest total, likewise. */
  lowestIn(from: Entry, to: Entry): Extreme {
    return this.extremeIn(from, to, this.lowest);
  }

  /**
   * Calls back with every row that is active after an entry, in order of `start`; ends early once it is answered
   * `false`.
   */
  forEachLive(entry: Entry, each: (row: Row) => boolean | undefined): void {
    const {end, start, rows} = this.lifetimes;
    const list = Math.floor(entry / this.stride);
    for (let i = this.listFrom[list], to = this.listFrom[list + 1]; i < to; i++) {
      const row = this.lists[i];
      if (end[row] > entry && each(row) === false) return;
    }
    for (let row = this.listNext[list]; row < rows && start[row] <= entry; row++) {
      if (end[row] > entry && each(row) === false) return;
    }
  }

  /** Number of rows that are active after an entry. */
  liveCount(entry: Entry): number {
    let count = 0;
    this.forEachLive(entry, () => {
      count++;
      return true;
    });
    return count;
  }

  /** The rows that are active after an entry, in order of `start`. */
  liveAt(entry: Entry, spare?: Spare): Uint32Array<ArrayBuffer> {
    const {end, start, rows} = this.lifetimes;
    const list = Math.floor(entry / this.stride);
    const from = this.listFrom[list];
    const to = this.listFrom[list + 1];
    const next = this.listNext[list];
    const most = to - from + Math.min(rows - next, entry - list * this.stride);
    const live = spare?.u32(most) ?? new Uint32Array(most);
    let count = 0;
    for (let i = from; i < to; i++) {
      const row = this.lists[i];
      if (end[row] > entry) live[count++] = row;
    }
    for (let row = next; row < rows && start[row] <= entry; row++) {
      if (end[row] > entry) live[count++] = row;
    }
    return live.subarray(0, count);
  }

  /** The bands after an entry: what is active, in order of `start`. This is the inner loop of every picture. */
  bandsAfter(entry: Entry, bands: BandList): void {
    const {end, start, size, rows} = this.lifetimes;
    const list = Math.floor(entry / this.stride);
    const to = this.listFrom[list + 1];
    let row = this.listNext[list];
    bands.reserve(to - this.listFrom[list] + Math.min(rows - row, entry - list * this.stride));
    const {ids, units} = bands;
    let count = 0;
    for (let i = this.listFrom[list]; i < to; i++) {
      const listed = this.lists[i];
      if (end[listed] > entry) {
        ids[count] = listed + 1;
        units[count++] = size[listed];
      }
    }
    for (; row < rows && start[row] <= entry; row++) {
      if (end[row] > entry) {
        ids[count] = row + 1;
        units[count++] = size[row];
      }
    }
    bands.count = count;
  }

  /** The row that a row's `alloc` at this entry made, if there is one. */
  rowStartedBy(entry: Entry): Row | undefined {
    const {rows, before, start} = this.lifetimes;
    const row = Math.max(firstRowFrom(this.lifetimes, entry), before);
    return row < rows && start[row] === entry ? row : undefined;
  }

  /** The row whose `free_completed` is this entry, if there is one. */
  rowEndedBy(entry: Entry): Row | undefined {
    const {end} = this.lifetimes;
    const bucket = Math.floor(entry / this.bucket);
    if (bucket + 1 >= this.firstEnd.length) return undefined;
    for (let i = this.firstEnd[bucket], to = this.firstEnd[bucket + 1]; i < to; i++) {
      if (end[this.byEnd[i]] === entry) return this.byEnd[i];
    }
    return undefined;
  }

  /** How many units lie below a row after an entry at which it is active. */
  below(row: Row, entry: Entry): number {
    const {size} = this.lifetimes;
    let sum = 0;
    this.forEachLive(entry, other => {
      if (other >= row) return false;
      sum += size[other];
    });
    return sum;
  }

  /** Fills the totals before each bucket, and the largest and smallest in it. No call for each entry: there are millions. */
  private sumUp(highest: Float64Array, lowest: Float64Array): void {
    const {start, end, size, rows, entries} = this.lifetimes;
    const {byEnd, bucket: width} = this;
    let total = 0;
    let row = 0;
    let ended = 0;
    for (let bucket = 0; bucket < highest.length; bucket++) {
      this.before[bucket] = total;
      let high = -1;
      let low = Number.POSITIVE_INFINITY;
      const last = Math.min((bucket + 1) * width, entries);
      for (let entry = bucket * width; entry < last; entry++) {
        while (row < rows && start[row] === entry) total += size[row++];
        while (ended < byEnd.length && end[byEnd[ended]] === entry) total -= size[byEnd[ended++]];
        if (total > high) high = total;
        if (total < low) low = total;
      }
      highest[bucket] = high;
      lowest[bucket] = low;
    }
  }

  /** Walks the entries of a bucket with the total after each; gives the total after the last. */
  private walk(bucket: number, each: (entry: Entry, total: number) => void): number {
    const {start, end, size, entries} = this.lifetimes;
    let total = this.before[bucket];
    let row = this.firstStart[bucket];
    let ended = this.firstEnd[bucket];
    const rowEnd = this.firstStart[bucket + 1];
    const endedEnd = this.firstEnd[bucket + 1];
    const last = Math.min((bucket + 1) * this.bucket, entries);
    for (let entry = bucket * this.bucket; entry < last; entry++) {
      while (row < rowEnd && start[row] === entry) total += size[row++];
      while (ended < endedEnd && end[this.byEnd[ended]] === entry) total -= size[this.byEnd[ended++]];
      each(entry, total);
    }
    return total;
  }

  private extremeIn(from: Entry, to: Entry, extremes: Extremes): Extreme {
    const best: Extreme = {entry: from, total: Number.NaN};
    const see = (entry: Entry, total: number) => {
      if (entry >= from && entry < to && !(extremes.beats(best.total, total) || best.total === total)) {
        best.entry = entry;
        best.total = total;
      }
    };
    const first = Math.floor(from / this.bucket);
    const last = Math.floor((to - 1) / this.bucket);
    this.walk(first, see);
    if (last > first) {
      if (last > first + 1) {
        const bucket = extremes.bestIn(first + 1, last);
        if (extremes.beats(extremes.at(bucket), best.total)) this.walk(bucket, see);
      }
      this.walk(last, see);
    }
    return best;
  }
}

/** Fills the places of the buckets, and gives the rows by their end: counted into buckets, then sorted in each. */
function sortByEnd(lifetimes: Lifetimes, width: number, firstStart: Uint32Array, firstEnd: Uint32Array): Uint32Array {
  const {rows, entries, start, end} = lifetimes;
  const buckets = firstEnd.length - 1;
  for (let row = 0; row < rows; row++) {
    firstStart[Math.min(Math.floor(start[row] / width) + 1, buckets)]++;
    if (end[row] < entries) firstEnd[Math.floor(end[row] / width) + 1]++;
  }
  for (let bucket = 0; bucket < buckets; bucket++) {
    firstStart[bucket + 1] += firstStart[bucket];
    firstEnd[bucket + 1] += firstEnd[bucket];
  }
  const byEnd = new Uint32Array(firstEnd[buckets]);
  const next = firstEnd.slice();
  for (let row = 0; row < rows; row++) {
    if (end[row] >= entries) continue;
    const bucket = Math.floor(end[row] / width);
    let at = next[bucket]++;
    for (; at > firstEnd[bucket] && end[byEnd[at - 1]] > end[row]; at--) byEnd[at] = byEnd[at - 1];
    byEnd[at] = row;
  }
  return byEnd;
}

/** The width of buckets, a power of 2: about 16 rows or more begin in each, within its limits. */
function bucketOf({rows, entries}: Lifetimes): number {
  let bucket = BUCKET_MIN;
  while (bucket < BUCKET_MAX && (rows * bucket) / entries < 16) bucket *= 2;
  return bucket;
}

/**
 * The distance of live lists: about as many rows start between two as a scan can look at in passing, and all lists together
 * stay within their share of memory.
 */
function strideOf(lifetimes: Lifetimes): number {
  const {rows, entries, start, end} = lifetimes;
  let liveEntries = 0;
  for (let row = 0; row < rows; row++) liveEntries += end[row] - start[row];
  let stride = LIST_STRIDE_MIN;
  const startsWanted = LIST_STRIDE_MIN / 4;
  while (liveEntries / stride > LIST_ROWS_MAX || (rows * stride) / entries < startsWanted) {
    if (stride >= entries) break;
    stride *= 2;
  }
  return stride;
}

interface LiveLists {
  rows: Uint32Array;
  from: Uint32Array;
  next: Uint32Array;
  liveMax: number;
}

function liveLists(lifetimes: Lifetimes, stride: number): LiveLists {
  const {rows: rowCount, entries, start, end} = lifetimes;
  const count = Math.ceil(entries / stride);
  let used = 0;
  for (let row = 0; row < rowCount; row++) used += Math.ceil(end[row] / stride) - Math.ceil(start[row] / stride);
  const rows = new Uint32Array(used);
  const from = new Uint32Array(count + 1);
  const next = new Uint32Array(count);
  let liveMax = 0;
  let row = 0;
  let at = 0;
  for (let list = 0; list < count; list++) {
    const entry = list * stride;
    const previous = list === 0 ? 0 : from[list - 1];
    from[list] = at;
    for (let i = previous; i < from[list]; i++) if (end[rows[i]] > entry) rows[at++] = rows[i];
    for (; row < rowCount && start[row] <= entry; row++) if (end[row] > entry) rows[at++] = row;
    next[list] = row;
    liveMax = Math.max(liveMax, at - from[list]);
  }
  from[count] = at;
  return {rows, from, next, liveMax};
}
