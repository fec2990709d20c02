/** The picture of a state: segments and their blocks after one entry. */

import {Transferred} from '../data/rpc';
import {type Abgr, darker, faded, halfway} from '../draw/paint';
import {BACKGROUND, FREE, pixelOf, type Shade} from '../draw/palette';
import type {Grouping} from '../model/groups';
import {awaitsFree} from '../model/pending';
import type {Pieces} from '../model/pieces';
import {Spare} from '../model/spare';
import {
  fittingScale,
  type Heading,
  layOut,
  type StateMeasures,
  type StateSegment,
  type Strip,
} from '../model/state-layout';
import {colouring, type Emphasis, emphasised} from './grouping';
import {bitmapOf, pixelsOf} from './pictures';
import {type SegmentGroups, segmentGroups} from './segments';
import type {Session} from './session';

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
  /** Of a picture that is done with. */
  readonly spare?: Uint32Array;
}

/** A strip of the picture. */
export interface DrawnStrip extends Strip {
  /** For each pixel of the width: 0 unmapped, 1 free, or the row of the block plus 2. */
  readonly ids: Uint32Array;
}

/** The picture. */
export interface StatePicture {
  readonly entry: number;
  readonly bitmap: ImageBitmap;
  /** Of all strips: one memory, which the next picture can have. */
  readonly ids: Uint32Array;
  /** Those that are visible. */
  readonly strips: DrawnStrip[];
  readonly headings: (Heading & {label: string; mappedBytes: number; usedBytes: number; segments: number})[];
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
}

/** Numbers of the live rows: the rows, three of their columns, and their order. */
const SPARE = {
  rows: new Spare(),
  segment: new Spare(),
  offset: new Spare(),
  requested: new Spare(),
  order: new Spare(),
};

/** The id of a strip's pixels that are free memory. */
const FREE_ID = 1;

export async function state(
  session: Session,
  request: StateRequest,
  matches: Uint8Array | undefined,
): Promise<Transferred<StatePicture>> {
  const {entry, width, height, shade, top} = request;
  const live = session.index.liveAt(entry, SPARE.rows);
  const cells = (name: 'segment' | 'offset' | 'requested') => session.cells(name, live, SPARE[name].f64(live.length));
  const [segmentOf, offset, requested] = await Promise.all([cells('segment'), cells('offset'), cells('requested')]);
  const [extent, pieces, groups, pending, colours] = await Promise.all([
    session.column('segment_size'),
    session.pieces(),
    segmentGroups(session),
    session.pending(),
    colouring(session, request.colourBy),
  ]);
  const {size, unitBytes} = session.lifetimes;

  const scale = (await fitScale(session, request.measures, height)) / request.zoom;
  const layout = layOut(inOrder(segmentsAt(pieces, entry), extent, groups), scale, request.measures);
  const visible = layout.strips.filter(({y}) => y + request.measures.stripHeight > top && y < top + height);
  const drawn = new Map<number, DrawnStrip[]>();
  const pixelCount = visible.reduce((sum, strip) => sum + strip.width, 0);
  const {spare} = request;
  const ids = spare && spare.length >= pixelCount ? spare.fill(0) : new Uint32Array(pixelCount);
  let taken = 0;
  for (const strip of visible) {
    const strips = drawn.get(strip.segment);
    const one = {...strip, ids: ids.subarray(taken, taken + strip.width)};
    taken += strip.width;
    if (strips) strips.push(one);
    else drawn.set(strip.segment, [one]);
  }

  const pixels = pixelsOf(width * height);
  const background = pixelOf(BACKGROUND[shade]);
  pixels.fill(background);
  const {key, lut} = emphasised(colours, request.emphasis, background);
  const free = pixelOf(FREE[shade]);
  const canvas: Canvas = {pixels, width, height, top, stripHeight: request.measures.stripHeight};

  const mapped = new Map<number, number>();
  const piecesSize = pieces.index.lifetimes.size;
  pieces.index.forEachLive(entry, piece => {
    const segment = pieces.segment[piece];
    mapped.set(segment, (mapped.get(segment) ?? 0) + piecesSize[piece]);
    for (const strip of drawn.get(segment) ?? []) {
      const run = runIn(strip, pieces.offset[piece], piecesSize[piece]);
      if (run) fill(canvas, strip, run.from, run.to, free, FREE_ID);
    }
    return true;
  });

  const used = new Map<number, number>();
  let pendingUnits = 0;
  for (let i = 0; i < live.length; i++) {
    const row = live[i];
    const segment = segmentOf[i];
    used.set(segment, (used.get(segment) ?? 0) + size[row]);
    const isPending = pending.requestedAt.size > 0 && awaitsFree(pending, row, entry);
    if (isPending) pendingUnits += size[row];
    const strips = drawn.get(segment);
    if (!strips) continue;
    let colour: Abgr = lut[key[row]];
    if (request.highlightsSearch && matches && matches[row] === 0) colour = faded(colour, background);
    for (const strip of strips) {
      const run = runIn(strip, offset[i], size[row]);
      if (!run) continue;
      fill(canvas, strip, run.from, run.to, colour, row + 2);
      // What was handed out beyond the request.
      const asked = runIn(strip, offset[i], requested[i] / unitBytes);
      if (asked && asked.to < run.to) fill(canvas, strip, asked.to, run.to, halfway(colour, free), row + 2);
      if (isPending) hatch(canvas, strip, run.from, run.to, darker(darker(colour)));
      if (run.to - run.from > 2) fill(canvas, strip, run.from, run.from + 1, darker(colour), row + 2);
      if (row === request.pinned) outline(canvas, strip, run.from, run.to, shade === 'dark' ? 0xffffffff : 0xff000000);
    }
  }

  const headings = layout.headings.map(heading => {
    let mappedUnits = 0;
    let usedUnits = 0;
    let segments = 0;
    for (const [segment, units] of mapped) {
      if (groups.of[segment] !== heading.group) continue;
      mappedUnits += units;
      usedUnits += used.get(segment) ?? 0;
      segments++;
    }
    const label = groups.labels[heading.group];
    return {...heading, label, segments, mappedBytes: mappedUnits * unitBytes, usedBytes: usedUnits * unitBytes};
  });
  const totals: StateTotals = {
    activeBytes: session.index.totalAfter(entry) * unitBytes,
    pendingBytes: pendingUnits * unitBytes,
    reservedBytes: pieces.index.totalAfter(entry) * unitBytes,
    largestFreeBytes: largestFree(session, pieces, entry, live, segmentOf, offset) * unitBytes,
    segments: mapped.size,
    blocks: live.length,
  };
  SPARE.rows.give(live);
  SPARE.segment.give(segmentOf);
  SPARE.offset.give(offset);
  SPARE.requested.give(requested);
  const bitmap = await bitmapOf(pixels, width, height);
  const strips = [...drawn.values()].flat();
  const value = {entry, bitmap, ids, strips, headings, layoutHeight: layout.height, totals};
  return new Transferred(value, [bitmap, ids.buffer]);
}

type Numbers = ArrayLike<number>;

/** The segments with memory after an entry. */
function segmentsAt(pieces: Pieces, entry: number): Set<number> {
  const segments = new Set<number>();
  pieces.index.forEachLive(entry, piece => {
    segments.add(pieces.segment[piece]);
    return true;
  });
  return segments;
}

/** Group by group, by address: rows of the segments are in that order. */
function inOrder(segments: Set<number>, extent: Numbers, groups: SegmentGroups): StateSegment[] {
  return [...segments]
    .map(segment => ({segment, units: extent[segment], group: groups.of[segment]}))
    .sort((a, b) => a.group - b.group || a.segment - b.segment);
}

/** The scale at which the fullest state fits: the same for every entry, so that nothing jumps while scrubbing. */
function fitScale(session: Session, measures: StateMeasures, height: number): Promise<number> {
  const {width, stripHeight} = measures;
  return session.once(`state-scale ${width} ${stripHeight} ${height}`, async () => {
    const [pieces, groups, extent] = await Promise.all([
      session.pieces(),
      segmentGroups(session),
      session.column('segment_size'),
    ]);
    const fullest = segmentsAt(pieces, pieces.index.peak.entry);
    return fittingScale(inOrder(fullest, extent, groups), height, measures);
  });
}

interface Canvas {
  readonly pixels: Uint32Array;
  readonly width: number;
  readonly height: number;
  readonly top: number;
  readonly stripHeight: number;
}

/** The pixels of a stretch of a segment in a strip: from its left end, at least one. */
function runIn(strip: Strip, fromUnits: number, units: number): {from: number; to: number} | undefined {
  const low = Math.max(fromUnits, strip.fromUnits);
  const high = Math.min(fromUnits + units, strip.toUnits);
  if (high <= low) return undefined;
  const perUnit = strip.width / (strip.toUnits - strip.fromUnits);
  const from = Math.floor((low - strip.fromUnits) * perUnit);
  return {from, to: Math.min(strip.width, Math.max(from + 1, Math.floor((high - strip.fromUnits) * perUnit)))};
}

function fill(canvas: Canvas, strip: DrawnStrip, from: number, to: number, colour: Abgr, id: number): void {
  strip.ids.fill(id, from, to);
  for (let line = 0; line < canvas.stripHeight; line++) {
    const y = strip.y - canvas.top + line;
    if (y < 0 || y >= canvas.height) continue;
    const at = y * canvas.width + strip.x;
    canvas.pixels.fill(colour, at + from, Math.min(at + to, (y + 1) * canvas.width));
  }
}

function hatch(canvas: Canvas, strip: Strip, from: number, to: number, colour: Abgr): void {
  for (let line = 0; line < canvas.stripHeight; line++) {
    const y = strip.y - canvas.top + line;
    if (y < 0 || y >= canvas.height) continue;
    const at = y * canvas.width + strip.x;
    for (let x = from; x < to; x++) if ((x + line) & 4) canvas.pixels[at + x] = colour;
  }
}

function outline(canvas: Canvas, strip: Strip, from: number, to: number, colour: Abgr): void {
  const {stripHeight, height, width, top, pixels} = canvas;
  for (let line = 0; line < stripHeight; line++) {
    const y = strip.y - top + line;
    if (y < 0 || y >= height) continue;
    const at = y * width + strip.x;
    if (line < 2 || line >= stripHeight - 2) pixels.fill(colour, at + from, at + to);
    pixels[at + from] = colour;
    pixels[at + to - 1] = colour;
  }
}

/** The longest stretch of mapped memory without an active block, in units. `segmentOf` and `offset` are of each of the live rows. */
function largestFree(
  session: Session,
  pieces: Pieces,
  entry: number,
  live: Uint32Array,
  segmentOf: Float64Array,
  offset: Float64Array,
): number {
  const {size} = session.lifetimes;
  const sizes = pieces.index.lifetimes.size;
  const blocks = SPARE.order.u32(live.length);
  for (let i = 0; i < blocks.length; i++) blocks[i] = i;
  blocks.sort((a, b) => segmentOf[a] - segmentOf[b] || offset[a] - offset[b]);
  const mapped = pieces.index
    .liveAt(entry)
    .sort((a, b) => pieces.segment[a] - pieces.segment[b] || pieces.offset[a] - pieces.offset[b]);
  let largest = 0;
  let next = 0;
  for (let i = 0; i < mapped.length; ) {
    // Pieces that touch are one stretch.
    const segment = pieces.segment[mapped[i]];
    let at = pieces.offset[mapped[i]];
    let end = at + sizes[mapped[i]];
    for (i++; i < mapped.length && pieces.segment[mapped[i]] === segment && pieces.offset[mapped[i]] === end; i++) {
      end += sizes[mapped[i]];
    }
    for (; next < blocks.length; next++) {
      const block = blocks[next];
      if (segmentOf[block] > segment || (segmentOf[block] === segment && offset[block] >= at)) break;
    }
    for (; next < blocks.length && segmentOf[blocks[next]] === segment && offset[blocks[next]] < end; next++) {
      const block = blocks[next];
      largest = Math.max(largest, offset[block] - at);
      at = Math.max(at, offset[block] + size[live[block]]);
    }
    largest = Math.max(largest, end - at);
  }
  SPARE.order.give(blocks);
  return largest;
}
