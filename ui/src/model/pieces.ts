/**
 * Reserved memory: stretches of segments while they are mapped.
 *
 * They are lifetimes too, so that the same index finds what is reserved after any entry, and the maximum of any stretch.
 */

import type {Column} from '../data/section';
import {TimelineIndex} from './timeline-index';

/** The pieces of a device, in order of `start`. */
export interface Pieces {
  /** Over the pieces: its totals are reserved units. */
  readonly index: TimelineIndex;
  /** Row of the segments. */
  readonly segment: Column;
  /** Units from the segment's first byte. */
  readonly offset: Column;
  /** For each segment, how many came before it. */
  readonly rank: Uint32Array;
}

/** Makes the index over the columns of the pieces, which are in order of `start`. */
export function makePieces(
  columns: {segment: Column; offset: Column; size: Column; start: Column; end: Column},
  segments: number,
  entries: number,
  unitBytes: number,
): Pieces {
  const {segment, offset, size, start, end} = columns;
  const rank = new Uint32Array(segments).fill(segments);
  let seen = 0;
  for (const row of segment) if (rank[row] === segments) rank[row] = seen++;
  const index = new TimelineIndex({rows: start.length, entries, before: 0, unitBytes, start, end, size});
  return {index, segment, offset, rank};
}

/** Totals of a segment at one moment, in units. */
export interface SegmentUse {
  readonly segment: number;
  /** Of its memory that is mapped. */
  mapped: number;
  /** Of it, in active blocks. */
  used: number;
}

/** The segments that are there after an entry, in the order in which they came. */
export function segmentsAfter(
  pieces: Pieces,
  lifetimes: TimelineIndex,
  segmentOf: Column,
  entry: number,
): SegmentUse[] {
  const uses = new Map<number, SegmentUse>();
  const {size} = pieces.index.lifetimes;
  pieces.index.forEachLive(entry, piece => {
    const segment = pieces.segment[piece];
    const use = uses.get(segment);
    if (use) use.mapped += size[piece];
    else uses.set(segment, {segment, mapped: size[piece], used: 0});
    return true;
  });
  const sizes = lifetimes.lifetimes.size;
  lifetimes.forEachLive(entry, row => {
    const use = uses.get(segmentOf[row]);
    if (use) use.used += sizes[row];
    return true;
  });
  return [...uses.values()].sort((a, b) => pieces.rank[a.segment] - pieces.rank[b.segment]);
}
