/** The longest stretch of mapped memory without a block. */

/** Pieces or blocks, by the segment that they are in, their first unit and their length; two of a kind never overlap. */
export interface Stretches {
  readonly count: number;
  segment(i: number): number;
  offset(i: number): number;
  units(i: number): number;
}

/** Room for the ends of stretches, which whoever asks lends: this is called in every frame of a gesture. */
export type Room = (length: number) => Float64Array;

/** More units than any segment has: a place is a segment and an offset in one exact number. */
const SEGMENT_UNITS = 2 ** 32;

/** The longest stretch of the pieces without a block, in units; pieces that touch are one stretch. */
export function largestFree(pieces: Stretches, blocks: Stretches, room: Room): number {
  const mapped = ends(pieces, room);
  const used = ends(blocks, room);
  let largest = 0;
  let block = 0;
  for (let i = 0; i < pieces.count; ) {
    let at = mapped.from[i];
    let end = mapped.to[i];
    for (i++; i < pieces.count && mapped.from[i] === end; i++) end = mapped.to[i];
    while (block < blocks.count && used.to[block] <= at) block++;
    for (; block < blocks.count && used.from[block] < end; block++) {
      largest = Math.max(largest, used.from[block] - at);
      at = Math.max(at, used.to[block]);
    }
    largest = Math.max(largest, end - at);
  }
  return largest;
}

/** Where stretches begin and end, ascending: as none overlap, both orders are the same. Numbers alone are sorted without garbage. */
function ends(stretches: Stretches, room: Room): {from: Float64Array; to: Float64Array} {
  const {count} = stretches;
  const [from, to] = [room(count), room(count)];
  for (let i = 0; i < count; i++) {
    from[i] = stretches.segment(i) * SEGMENT_UNITS + stretches.offset(i);
    to[i] = from[i] + stretches.units(i);
  }
  return {from: from.sort(), to: to.sort()};
}
