/** Segments: their picture over time, and what is known of one. */

import type {Transferred} from '../data/rpc';
import {BACKGROUND, colourInOrder, pixelOf} from '../draw/palette';
import {segmentsAfter} from '../model/pieces';
import {drawSegments} from '../model/segments-picture';
import {finish, type StackedPicture, type StackedRequest} from './pictures';
import type {Session} from './session';

/** The bits of `segment_flags`. */
export const SEGMENT_EXPANDABLE = 1;
export const SEGMENT_SMALL = 2;
export const SEGMENT_UNEXPLAINED = 4;

/** Groups of segments: those of a pool, a stream and a kind look alike. */
export interface SegmentGroups {
  /** For each segment. */
  readonly of: Uint32Array;
  readonly labels: string[];
  readonly colours: Uint32Array;
}

/** Whose a segment is: its pool, its stream, and whether it is for small blocks. */
export function segmentGroups(session: Session): Promise<SegmentGroups> {
  return session.once('segment-groups', async () => {
    const names = ['segment_stream', 'segment_pool', 'segment_flags'];
    const [stream, pool, flags] = await Promise.all(names.map(name => session.column(name)));
    const {device} = session;
    const labels: string[] = [];
    const known = new Map<string, number>();
    const of = Uint32Array.from(stream, (_, segment) => {
      const kind = flags[segment] & SEGMENT_SMALL ? 'small blocks' : 'large blocks';
      const place = device.pools[pool[segment]]?.label ?? 'default';
      const label = [
        place,
        kind,
        `stream ${device.streams[stream[segment]] ?? '0'}`,
        ...(flags[segment] & SEGMENT_EXPANDABLE ? ['expandable'] : []),
        ...(flags[segment] & SEGMENT_UNEXPLAINED ? ['not in the trace'] : []),
      ].join(', ');
      const group = known.get(label) ?? labels.push(label) - 1;
      known.set(label, group);
      return group;
    });
    const colours = Uint32Array.from(labels, (label, group) => colourInOrder(group, label));
    return {of, labels, colours};
  });
}

/** The picture of reserved memory over the x axis. */
export async function segments(session: Session, request: StackedRequest): Promise<Transferred<StackedPicture>> {
  const [axis, pieces, segmentOf, groups] = await Promise.all([
    session.axis(request.axis),
    session.pieces(),
    session.column('segment'),
    segmentGroups(session),
  ]);
  const picture = drawSegments(pieces, session.index, segmentOf, axis, request, request.spare);
  return finish(session, request, picture, {
    colours: {key: groups.of, lut: groups.colours},
    background: pixelOf(BACKGROUND[request.shade]),
    idle: 'pale',
    before: 0,
    matches: undefined,
  });
}

/** One segment after an entry. */
export interface SegmentDetails {
  readonly segment: number;
  readonly address: number;
  /** Of its mapped memory. */
  readonly mappedBytes: number;
  /** Of its active blocks. */
  readonly usedBytes: number;
  readonly blocks: number;
  readonly label: string;
  readonly site: string;
}

/** What there is to say of a segment. */
export async function describeSegment(session: Session, segment: number, entry: number): Promise<SegmentDetails> {
  const live = session.index.liveAt(entry);
  const [segmentOf, addresses, stack] = await Promise.all([
    session.cells('segment', live),
    session.column('segment_address'),
    session.column('segment_stack'),
  ]);
  const [pieces, groups, stacks] = await Promise.all([session.pieces(), segmentGroups(session), session.stacks()]);
  const {size, unitBytes} = session.lifetimes;
  let [mapped, used, blocks] = [0, 0, 0];
  pieces.index.forEachLive(entry, piece => {
    if (pieces.segment[piece] === segment) mapped += pieces.index.lifetimes.size[piece];
    return true;
  });
  live.forEach((row, i) => {
    if (segmentOf[i] !== segment) return;
    used += size[row];
    blocks++;
  });
  return {
    segment,
    address: addresses[segment],
    mappedBytes: mapped * unitBytes,
    usedBytes: used * unitBytes,
    blocks,
    label: groups.labels[groups.of[segment]],
    site: stacks.describeSite(stacks.sites[stack[segment]]),
  };
}

/** One line of the list beside the picture. */
export interface SegmentGroupTotal {
  readonly label: string;
  readonly colour: number;
  readonly segments: number;
  readonly mappedBytes: number;
  readonly usedBytes: number;
}

/** The groups of segments after an entry, most reserved first. */
export async function segmentTotals(session: Session, entry: number): Promise<SegmentGroupTotal[]> {
  const [pieces, groups, segmentOf] = await Promise.all([
    session.pieces(),
    segmentGroups(session),
    session.column('segment'),
  ]);
  const {unitBytes} = session.lifetimes;
  const totals = groups.labels.map((label, group) => ({
    label,
    colour: groups.colours[group],
    segments: 0,
    mappedBytes: 0,
    usedBytes: 0,
  }));
  for (const {segment, mapped, used} of segmentsAfter(pieces, session.index, segmentOf, entry)) {
    const total = totals[groups.of[segment]];
    total.segments++;
    total.mappedBytes += mapped * unitBytes;
    total.usedBytes += used * unitBytes;
  }
  return totals.filter(total => total.segments > 0).sort((a, b) => b.mappedBytes - a.mappedBytes);
}
