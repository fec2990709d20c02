/** The picture of a state: segments and their blocks after one entry. */

import {Transferred} from '../data/rpc';
import {type Abgr, darker, faded, halfway} from '../draw/paint';
import {BACKGROUND, FREE, pixelOf, type Shade} from '../draw/palette';
import type {Grouping} from '../model/groups';
import {largestFree} from '../model/largest-free';
import {blocksAfter, outsideAfter} from '../model/outside';
import {awaitsFree} from '../model/pending';
import type {Pieces} from '../model/pieces';
import {Spare} from '../model/spare';
import {
  fittingScale,
  type Heading,
  layOut,
  STRIP_NUMBERS,
  type StateLayout,
  type StateMeasures,
  type StateSegment,
} from '../model/state-layout';
import {colouring, type Emphasis, emphasised} from './grouping';
import {type Places, placesOf} from './outside';
import type {Session} from './session';
import {type Canvas, fill, hatch, outline, runIn} from './state-canvas';

/** What to draw, in device pixels. */
export interface StateRequest {
  readonly entry: number;
  readonly width: number;
  readonly height: number;
  readonly measures: StateMeasures;
  /** 1 shows everything at the peak of reserved memory; 2 twice as large. */
  readonly zoom: number;
  /** Pixels of the layout above the picture. */
  readonly top: number;
  readonly colourBy: Grouping;
  readonly shade: Shade;
  readonly highlightsSearch: boolean;
  readonly emphasis: Emphasis;
  readonly pinned: number | null;
  /** Whether memory outside PyTorch has its places, too. */
  readonly showsOutside: boolean;
  /** Memory of a picture that is done with. */
  readonly spare?: Uint32Array;
}

/** The picture. Its columns of numbers are in one memory, which the picture after the next has: others would be garbage. */
export interface StatePicture {
  readonly entry: number;
  readonly width: number;
  readonly height: number;
  readonly pixels: Uint32Array<ArrayBuffer>;
  /**
   * For each pixel of the visible strips' widths: 0 unmapped, 1 free, or the row of the block plus 2; of a block outside PyTorch its row
   * plus `OUTSIDE_ID`.
   */
  readonly ids: Uint32Array<ArrayBuffer>;
  /** The visible strips, `STRIP_NUMBERS` each: an object a strip, of which there can be a thousand, would be garbage in every frame. */
  readonly strips: Uint32Array;
  readonly headings: (Heading & {
    label: string;
    mappedBytes: number;
    usedBytes: number;
    segments: number;
    isOutside: boolean;
  })[];
  /** Of the whole layout. */
  readonly layoutHeight: number;
  readonly totals: StateTotals;
}

/** Sums of a state. */
export interface StateTotals {
  readonly activeBytes: number;
  readonly pendingBytes: number;
  readonly reservedBytes: number;
  readonly largestFreeBytes: number;
  readonly segments: number;
  readonly blocks: number;
  /** Outside PyTorch, with and without an address. */
  readonly outsideBytes: number;
}

/** Memory for the live rows and three of their columns, and for the sums of the segments. */
const SPARE = {
  rows: new Spare(),
  segment: new Spare(),
  offset: new Spare(),
  requested: new Spare(),
  pieces: new Spare(),
  mapped: new Spare(),
  used: new Spare(),
  first: new Spare(),
};

/** Memory in which the largest free stretch is found: it asks for four. */
const FREE_ROOM = [new Spare(), new Spare(), new Spare(), new Spare()];

/** The id of a strip's pixels that are free memory. */
const FREE_ID = 1;

/** From here on, ids are of blocks outside PyTorch. */
export const OUTSIDE_ID = 0x80000000;

export async function state(
  session: Session,
  request: StateRequest,
  matches: Uint8Array | undefined,
): Promise<Transferred<StatePicture>> {
  const {entry, width, height, shade, top} = request;
  const live = session.index.liveAt(entry, SPARE.rows);
  const cells = (name: 'segment' | 'offset' | 'requested') => session.cells(name, live, SPARE[name].f64(live.length));
  const [segmentOf, offset, requested] = await Promise.all([cells('segment'), cells('offset'), cells('requested')]);
  const [spaces, pieces, pending, colours] = await Promise.all([
    placesOf(session),
    session.pieces(),
    session.pending(),
    colouring(session, request.colourBy),
  ]);
  const {size, unitBytes} = session.lifetimes;
  const {index, segment: pieceSegment, offset: pieceOffset} = pieces;
  const pieceSize = index.lifetimes.size;

  const {extent, segments, outside} = spaces;

  // Sums by segment.
  const mapped = SPARE.mapped.f64(extent.length).fill(0);
  const used = SPARE.used.f64(extent.length).fill(0);
  const livePieces = index.liveAt(entry, SPARE.pieces);
  for (const piece of livePieces) mapped[pieceSegment[piece]] += pieceSize[piece];
  for (let i = 0; i < live.length; i++) used[segmentOf[i]] += size[live[i]];

  const blocks = outside && request.showsOutside ? blocksAfter(outside.blocks, entry) : [];
  for (const block of blocks) mapped[segments + block] = used[segments + block] = extent[segments + block];

  const scale = fitScale(session, request, spaces, pieces) / request.zoom;
  const layout = layoutOf(session, mapped, {spaces, scale, measures: request.measures});
  const {strips} = layout;
  const first = SPARE.first.u32(extent.length);
  const {from, to, pixelCount} = visibleStrips(layout, request, first);
  const placed = (to - from) * STRIP_NUMBERS;
  const memory = memoryOf(width * height + placed + pixelCount, request.spare);
  const pixels = memory.subarray(0, width * height);
  const places = memory.subarray(width * height, width * height + placed);
  const ids = memory.subarray(width * height + placed).fill(0);
  putPlaces(layout, from, places);
  const background = pixelOf(BACKGROUND[shade]);
  pixels.fill(background);
  const {key, lut} = emphasised(colours, request.emphasis, background);
  const free = pixelOf(FREE[shade]);
  const canvas: Canvas = {pixels, width, height, top, stripHeight: request.measures.stripHeight, ids};
  const idsAt = (strip: number) => places[(strip - from) * STRIP_NUMBERS + 4];

  for (const piece of livePieces) {
    const segment = pieceSegment[piece];
    for (let strip = first[segment]; strip < to && strips[strip].segment === segment; strip++) {
      const run = runIn(strips[strip], pieceOffset[piece], pieceSize[piece]);
      if (run) fill(canvas, strips[strip], idsAt(strip), run.from, run.to, free, FREE_ID);
    }
  }

  for (const block of blocks) {
    const segment = segments + block;
    for (let strip = first[segment]; strip < to && strips[strip].segment === segment; strip++) {
      const run = runIn(strips[strip], 0, extent[segment]);
      if (!run) continue;
      const colour = spaces.colours[outside!.blocks.owner[block]];
      fill(canvas, strips[strip], idsAt(strip), run.from, run.to, colour, OUTSIDE_ID + block);
      if (run.to - run.from > 2)
        fill(canvas, strips[strip], idsAt(strip), run.from, run.from + 1, darker(colour), OUTSIDE_ID + block);
    }
  }

  let pendingUnits = 0;
  for (let i = 0; i < live.length; i++) {
    const row = live[i];
    const segment = segmentOf[i];
    const isPending = pending.requestedAt.size > 0 && awaitsFree(pending, row, entry);
    if (isPending) pendingUnits += size[row];
    if (first[segment] === to) continue;
    let colour: Abgr = lut[key[row]];
    if (request.highlightsSearch && matches && matches[row] === 0) colour = faded(colour, background);
    for (let strip = first[segment]; strip < to && strips[strip].segment === segment; strip++) {
      const one = strips[strip];
      const run = runIn(one, offset[i], size[row]);
      if (!run) continue;
      const {from: low, to: high} = run;
      fill(canvas, one, idsAt(strip), low, high, colour, row + 2);
      // What was allocated beyond the request.
      const asked = runIn(one, offset[i], requested[i] / unitBytes);
      if (asked && asked.to < high) fill(canvas, one, idsAt(strip), asked.to, high, halfway(colour, free), row + 2);
      if (isPending) hatch(canvas, one, low, high, darker(darker(colour)));
      if (high - low > 2) fill(canvas, one, idsAt(strip), low, low + 1, darker(colour), row + 2);
      if (row === request.pinned) outline(canvas, one, low, high, shade === 'dark' ? 0xffffffff : 0xff000000);
    }
  }

  const headings = layout.headings.map(heading => {
    let mappedUnits = 0;
    let usedUnits = 0;
    let count = 0;
    for (let segment = 0; segment < extent.length; segment++) {
      if (mapped[segment] === 0 || spaces.of[segment] !== heading.group) continue;
      mappedUnits += mapped[segment];
      usedUnits += used[segment];
      count++;
    }
    return {
      ...heading,
      label: spaces.labels[heading.group],
      segments: count,
      mappedBytes: mappedUnits * unitBytes,
      usedBytes: usedUnits * unitBytes,
      isOutside: heading.group >= spaces.groups,
    };
  });
  const freeUnits = freeRoom(room =>
    largestFree(
      {
        count: livePieces.length,
        segment: i => pieceSegment[livePieces[i]],
        offset: i => pieceOffset[livePieces[i]],
        units: i => pieceSize[livePieces[i]],
      },
      {count: live.length, segment: i => segmentOf[i], offset: i => offset[i], units: i => size[live[i]]},
      room,
    ),
  );
  const totals: StateTotals = {
    activeBytes: session.index.totalAfter(entry) * unitBytes,
    pendingBytes: pendingUnits * unitBytes,
    reservedBytes: pieces.index.totalAfter(entry) * unitBytes,
    largestFreeBytes: unitBytes * freeUnits,
    segments: layout.segments - blocks.length,
    blocks: live.length,
    outsideBytes: outside ? outsideAfter(outside, entry).reduce((sum, bytes) => sum + bytes, 0) : 0,
  };
  SPARE.rows.give(live);
  SPARE.segment.give(segmentOf);
  SPARE.offset.give(offset);
  SPARE.requested.give(requested);
  SPARE.pieces.give(livePieces);
  SPARE.mapped.give(mapped);
  SPARE.used.give(used);
  SPARE.first.give(first);
  const value = {entry, width, height, pixels, ids, strips: places, headings, layoutHeight: layout.height, totals};
  return new Transferred(value, [memory.buffer]);
}

/** So many numbers, in memory that is done with where there is enough of it. */
function memoryOf(length: number, spare: Uint32Array | undefined): Uint32Array<ArrayBuffer> {
  const bytes = length * Uint32Array.BYTES_PER_ELEMENT;
  const known = spare?.buffer as ArrayBuffer | undefined;
  const buffer = known && known.byteLength >= bytes ? known : new ArrayBuffer(bytes);
  return new Uint32Array(buffer, 0, length);
}

/** Strips of a layout that are in the picture. */
interface VisibleStrips {
  /** The first one, and the one behind the last. */
  readonly from: number;
  readonly to: number;
  /** The sum of their widths. */
  readonly pixelCount: number;
}

/** The visible strips; `first` gets the first of each segment, or `to`. Strips go down the picture, and those of a segment follow one another. */
function visibleStrips({strips}: StateLayout, request: StateRequest, first: Uint32Array): VisibleStrips {
  const {top, height, measures} = request;
  let from = 0;
  while (from < strips.length && strips[from].y + measures.stripHeight <= top) from++;
  let to = from;
  while (to < strips.length && strips[to].y < top + height) to++;
  first.fill(to);
  for (let i = to - 1; i >= from; i--) first[strips[i].segment] = i;
  let pixelCount = 0;
  for (let i = from; i < to; i++) pixelCount += strips[i].width;
  return {from, to, pixelCount};
}

/** Writes the numbers of visible strips, `STRIP_NUMBERS` each, from the strip `from` on. */
function putPlaces({strips}: StateLayout, from: number, places: Uint32Array): void {
  let pixelCount = 0;
  for (let at = 0; at < places.length; at += STRIP_NUMBERS) {
    const {segment, x, y, width} = strips[from + at / STRIP_NUMBERS];
    places[at] = segment;
    places[at + 1] = x;
    places[at + 2] = y;
    places[at + 3] = width;
    places[at + 4] = pixelCount;
    pixelCount += width;
  }
}

/** Lends memory for numbers while something is computed. */
function freeRoom<T>(compute: (room: (length: number) => Float64Array) => T): T {
  const lent: Float64Array<ArrayBuffer>[] = [];
  const made = compute(length => {
    const room = FREE_ROOM[lent.length].f64(length);
    lent.push(room);
    return room;
  });
  for (const [i, room] of lent.entries()) FREE_ROOM[i].give(room);
  return made;
}

/** What a layout depends on beside the segments that are there. */
interface LayoutOptions {
  readonly spaces: Places;
  readonly scale: number;
  readonly measures: StateMeasures;
}

interface KeptLayout extends StateLayout {
  readonly key: string;
  /** For each of all segments, whether it is there. */
  readonly isThere: Uint8Array;
  /** How many are. */
  readonly segments: number;
}

/** The layout of the state that was drawn last: while scrubbing, segments seldom come or go. */
const kept = new WeakMap<Session, KeptLayout>();

function layoutOf(session: Session, mapped: Float64Array, {spaces, scale, measures}: LayoutOptions): KeptLayout {
  const key = `${scale} ${Object.values(measures)}`;
  const last = kept.get(session);
  if (last?.key === key && last.isThere.every((isThere, segment) => (mapped[segment] > 0 ? 1 : 0) === isThere))
    return last;
  const isThere = Uint8Array.from(mapped, units => (units > 0 ? 1 : 0));
  const segments = stateSegments(spaces, isThere);
  const made = {...layOut(segments, scale, measures), key, isThere, segments: segments.length};
  kept.set(session, made);
  return made;
}

function stateSegments({ordered, extent, of}: Places, isThere: Uint8Array): StateSegment[] {
  return Array.from(
    ordered.filter(segment => isThere[segment] === 1),
    segment => ({segment, units: extent[segment], group: of[segment]}),
  );
}

/** The scales of sessions at which the fullest state fits, by what they depend on. */
const scales = new WeakMap<Session, Map<string, number>>();

/** The scale at which the fullest state fits: the same for every entry, so that nothing jumps while scrubbing. */
function fitScale(
  session: Session,
  {measures, height, showsOutside}: StateRequest,
  spaces: Places,
  pieces: Pieces,
): number {
  const known = scales.get(session) ?? new Map<string, number>();
  scales.set(session, known);
  const key = `${measures.width} ${measures.stripHeight} ${height} ${showsOutside}`;
  const kept = known.get(key);
  if (kept !== undefined) return kept;
  const isThere = new Uint8Array(spaces.extent.length);
  for (const piece of pieces.index.liveAt(pieces.index.peak.entry)) isThere[pieces.segment[piece]] = 1;
  const {outside} = session.device;
  if (spaces.outside && outside && showsOutside) {
    for (const block of blocksAfter(spaces.outside.blocks, outside.peak.entry)) isThere[spaces.segments + block] = 1;
  }
  const scale = fittingScale(stateSegments(spaces, isThere), height, measures);
  known.set(key, scale);
  return scale;
}
