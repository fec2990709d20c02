/** Memory outside PyTorch in the address space. */

import {ownerColours, pixelOf} from '../draw/palette';
import type {Outside} from '../model/outside';
import {type SegmentGroups, segmentGroups} from './segments';
import type {Session} from './session';

/** What a state lays out: the segments of PyTorch, then the blocks outside it, each as a segment of its own. */
export interface Places {
  /** Number of PyTorch's segments: the first so many. */
  readonly segments: number;
  /** Number of their groups: the first so many. */
  readonly groups: number;
  /** Of each, in units. */
  readonly extent: ArrayLike<number>;
  /** The group of each. */
  readonly of: ArrayLike<number>;
  readonly labels: readonly string[];
  /** All of them, group by group, by address. */
  readonly ordered: Uint32Array;
  readonly outside: Outside | undefined;
  /** Of the owners. */
  readonly colours: Uint32Array;
}

/** What has an address. */
export function placesOf(session: Session): Promise<Places> {
  return session.once('places', async () => {
    const [extent, groups, outside] = await Promise.all([
      session.column('segment_size'),
      segmentGroups(session),
      session.outside(),
    ]);
    const {owners = []} = session.device.outside ?? {};
    const titles = owners.map(({title}) => title);
    const segments = groups.of.length;
    const of = groupsWith(groups, outside);
    const {unitBytes} = session.lifetimes;
    const blocks = outside?.blocks;
    const all = blocks ? Float64Array.from(of, (_, at) => extentAt(at)) : extent;
    function extentAt(at: number): number {
      return at < segments ? extent[at] : blocks!.bytes[at - segments] / unitBytes;
    }
    // The rows of segments are in order of their addresses.
    const addressOf = (at: number) => (at < segments ? at : blocks!.address[at - segments]);
    const ordered = Uint32Array.from(of, (_, at) => at).sort((a, b) => of[a] - of[b] || addressOf(a) - addressOf(b));
    return {
      segments,
      groups: groups.labels.length,
      extent: all,
      of,
      labels: [...groups.labels, ...titles],
      ordered,
      outside,
      colours: Uint32Array.from(ownerColours(titles), pixelOf),
    };
  });
}

function groupsWith({of, labels}: SegmentGroups, outside: Outside | undefined): Uint32Array {
  if (!outside) return of;
  const {owner} = outside.blocks;
  const all = new Uint32Array(of.length + owner.length);
  all.set(of);
  for (let row = 0; row < owner.length; row++) all[of.length + row] = labels.length + owner[row];
  return all;
}

/** A block outside PyTorch. */
export interface OutsideDetails {
  readonly title: string;
  readonly bytes: number;
  readonly address: number;
  /** Where it was allocated, in words; undefined where nothing tells. */
  readonly site: string | undefined;
  readonly allocEntry: number;
  /** Undefined if it is there at the dump. */
  readonly freeEntry: number | undefined;
}

/** What there is to say of a block outside PyTorch. */
export async function describeOutside(session: Session, row: number): Promise<OutsideDetails> {
  const outside = await session.outside();
  const {address, bytes, owner, start, end, site} = outside!.blocks;
  const {owners, sites} = session.device.outside!;
  return {
    title: owners[owner[row]].title,
    bytes: bytes[row],
    address: address[row],
    site: sites[site[row]],
    allocEntry: start[row],
    freeEntry: end[row] < session.lifetimes.entries ? end[row] : undefined,
  };
}
