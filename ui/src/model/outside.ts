/** The process's memory on the GPU outside PyTorch, by owner: steps over the entries, and blocks with an address. */

import type {Column} from '../data/section';

/** Columns of the steps and of the blocks: `docs/viewer-data.md`. */
export interface Outside {
  /** Number of owners. */
  readonly owners: number;
  /** Where the bytes of an owner change, ascending. */
  readonly entry: Column;
  readonly owner: Column;
  readonly bytes: Column;
  readonly blocks: OutsideBlocks;
}

/** A maximum, and the first entry after which it is there. */
export interface PeakAt {
  readonly entry: number;
  readonly bytes: number;
}

/** A row an allocation. */
export interface OutsideBlocks {
  readonly address: Column;
  readonly bytes: Column;
  readonly owner: Column;
  readonly start: Column;
  readonly end: Column;
  readonly site: Column;
}

/** The bytes of each owner after an entry. */
export function outsideAfter({owners, entry, owner, bytes}: Outside, at: number): Float64Array {
  const sums = new Float64Array(owners);
  for (let step = 0; step < entry.length && entry[step] <= at; step++) sums[owner[step]] = bytes[step];
  return sums;
}

/** Blocks that are there after an entry, in the order of their rows. */
export function blocksAfter({start, end}: OutsideBlocks, at: number): number[] {
  const live: number[] = [];
  for (let row = 0; row < start.length; row++) if (start[row] <= at && at < end[row]) live.push(row);
  return live;
}

/** Goes through stretches of entries in ascending order, and knows where most is outside in each. */
export class OutsideCursor {
  /** The bytes of each owner where the last stretch had most. */
  readonly highest: Float64Array;
  /** Their sum. */
  highestBytes = 0;
  private readonly outside: Outside;
  private readonly now: Float64Array;
  private nowBytes = 0;
  private step = 0;

  constructor(outside: Outside) {
    this.outside = outside;
    this.now = new Float64Array(outside.owners);
    this.highest = new Float64Array(outside.owners);
  }

  /** Looks at the entries from `from` up to and without `to`; no stretch begins before the one that was looked at last. */
  look(from: number, to: number): void {
    this.goTo(from);
    this.take();
    const {entry} = this.outside;
    while (this.step < entry.length && entry[this.step] < to) {
      this.goTo(entry[this.step]);
      if (this.nowBytes > this.highestBytes) this.take();
    }
  }

  private take(): void {
    this.highest.set(this.now);
    this.highestBytes = this.nowBytes;
  }

  private goTo(at: number): void {
    const {entry, owner, bytes} = this.outside;
    for (; this.step < entry.length && entry[this.step] <= at; this.step++) {
      this.nowBytes += bytes[this.step] - this.now[owner[this.step]];
      this.now[owner[this.step]] = bytes[this.step];
    }
  }
}

/** For each column, what is reserved and, by owner, what is outside it: their sum. */
export function onCard(reservedBytes: Float64Array, outsideBytes: Float64Array): Float64Array {
  const owners = outsideBytes.length / reservedBytes.length;
  return reservedBytes.map((reserved, column) =>
    outsideBytes.subarray(column * owners, (column + 1) * owners).reduce((sum, bytes) => sum + bytes, reserved),
  );
}

/** The GPU's peak: the entry after which it holds most, PyTorch's reserved memory and the memory outside together. */
export function cardPeak(outside: Outside, entries: number, reservedIn: (from: number, to: number) => PeakAt): PeakAt {
  const cursor = new OutsideCursor(outside);
  const {entry} = outside;
  let peak = reservedIn(0, entries);
  for (let step = 0; step < entry.length; ) {
    const from = entry[step];
    while (step < entry.length && entry[step] === from) step++;
    const to = step < entry.length ? entry[step] : entries;
    cursor.look(from, to);
    const reserved = reservedIn(from, to);
    const bytes = cursor.highestBytes + reserved.bytes;
    if (bytes > peak.bytes) peak = {entry: reserved.entry, bytes};
  }
  return peak;
}
