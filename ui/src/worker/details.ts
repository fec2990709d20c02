/** All that is known of one lifetime, and of one moment. */

import {categoryWords} from '../model/categories';
import {outsideAfter} from '../model/outside';
import type {Frame} from '../model/stacks';
import {type SiteTotals, siteTotalsIn} from '../model/stretch-totals';
import type {Session} from './session';

/** One lifetime, as it is shown. */
export interface RowDetails {
  readonly row: number;
  readonly requestedBytes: number;
  readonly sizeBytes: number;
  readonly address: number;
  readonly stream: string;
  readonly pool: string;
  readonly category?: string;
  /** Its `alloc`; undefined if that came before the recording. */
  readonly allocEntry?: number;
  /** Its `free_requested`. */
  readonly freeRequestedEntry?: number;
  /** Its `free_completed`; undefined if it is active at the dump. */
  readonly freeEntry?: number;
  /** Microseconds since the first entry. */
  readonly allocUs?: number;
  readonly freeUs?: number;
  readonly site: string;
  /** Innermost first. */
  readonly frames: Frame[];
  readonly stack: number;
  /** Which of the lifetimes of this address, size and stack it is is told by its entries; `b7f3c_0` by PyTorch's viewer. */
  readonly name: string;
  /** At the entry that was asked about. */
  readonly at: {entry: number; isLive: boolean; rank: number; of: number; belowBytes: number; awaitsFree: boolean};
}

/** What there is to say of a row, seen from an entry. */
export async function describe(session: Session, row: number, entry: number): Promise<RowDetails> {
  const {lifetimes, device, index} = session;
  const {start, end, size, unitBytes, before, entries} = lifetimes;
  const names = ['requested', 'segment', 'offset', 'stream', 'pool'];
  const [requested, segment, offset, stream, pool] = await Promise.all(names.map(name => session.cell(name, row)));
  const [stacks, pending] = await Promise.all([session.stacks(), session.pending()]);
  const category = session.has('category') ? await session.cell('category', row) : undefined;
  const timeOf = (entry: number) => (device.time_us ? session.cell('time', entry) : undefined);
  const allocUs = row >= before ? await timeOf(start[row]) : undefined;
  const freeUs = end[row] < entries ? await timeOf(end[row]) : undefined;
  const address = (await session.cell('segment_address', segment)) + offset * unitBytes;
  const isFreed = end[row] < entries;
  const requestedAt = pending.requestedAt.get(row);
  const freeRequested = requestedAt ?? (isFreed && end[row] > 0 ? end[row] - 1 : undefined);
  const stack = session.stack[row];
  const moment = Math.min(Math.max(entry, start[row]), end[row] - 1);
  let larger = 0;
  let live = 0;
  let belowUnits = 0;
  index.forEachLive(moment, other => {
    live++;
    if (other < row) belowUnits += size[other];
    if (size[other] > size[row] || (size[other] === size[row] && other < row)) larger++;
    return true;
  });
  return {
    row,
    requestedBytes: requested,
    sizeBytes: size[row] * unitBytes,
    address,
    stream: device.streams[stream],
    pool: device.pools[pool]?.label ?? 'default',
    ...(category !== undefined && device.categories ? {category: categoryWords(device.categories[category])} : {}),
    ...(row >= before ? {allocEntry: start[row]} : {}),
    ...(freeRequested !== undefined ? {freeRequestedEntry: freeRequested} : {}),
    ...(isFreed ? {freeEntry: end[row]} : {}),
    ...(allocUs !== undefined ? {allocUs} : {}),
    ...(freeUs !== undefined ? {freeUs} : {}),
    site: stacks.describeSite(stacks.sites[stack]),
    frames: stacks.framesOf(stack),
    stack,
    name: `b${address.toString(16)}`,
    at: {
      entry: moment,
      isLive: start[row] <= entry && entry < end[row],
      rank: larger + 1,
      of: live,
      belowBytes: belowUnits * unitBytes,
      awaitsFree: requestedAt !== undefined && requestedAt <= moment,
    },
  };
}

/** The totals after an entry. */
export interface MomentTotals {
  readonly entry: number;
  readonly bytes: number;
  readonly reservedBytes: number;
  readonly count: number;
  /** Outside PyTorch, by owner; empty where the driver was not recorded. */
  readonly outsideBytes: readonly number[];
}

/** What is there after an entry. */
export async function moment(session: Session, entry: number): Promise<MomentTotals> {
  const {index: reserved} = await session.pieces();
  const outside = await session.outside();
  return {
    entry,
    bytes: session.index.totalAfter(entry) * session.lifetimes.unitBytes,
    reservedBytes: reserved.totalAfter(entry) * session.lifetimes.unitBytes,
    count: session.index.liveCount(entry),
    outsideBytes: outside ? Array.from(outsideAfter(outside, entry)) : [],
  };
}

/** What happened in a stretch of entries. */
export interface RangeTotals {
  readonly from: number;
  readonly to: number;
  readonly allocatedBytes: number;
  readonly allocations: number;
  readonly freedBytes: number;
  readonly frees: number;
  /** Allocated in the stretch and still active after its last entry. */
  readonly keptBytes: number;
  readonly kept: number;
  readonly peak: {entry: number; bytes: number};
  readonly startBytes: number;
  readonly endBytes: number;
  readonly reservedBytes: number;
  readonly durationUs?: number;
  /** The call sites that allocated most, or freed most of what was allocated before. */
  readonly sites: readonly (SiteTotals & {readonly label: string})[];
  /** How many more call sites there are. */
  readonly otherSites: number;
}

/** So many call sites are told of. */
const SITES_MAX = 8;

/** Sums up the entries from `from` up to and without `to`. */
export async function rangeTotals(session: Session, from: number, to: number): Promise<RangeTotals> {
  const {start, end, size, unitBytes, rows, before} = session.lifetimes;
  let allocated = 0;
  let allocations = 0;
  let freed = 0;
  let frees = 0;
  let keptUnits = 0;
  let kept = 0;
  for (let row = 0; row < rows && start[row] < to; row++) {
    if (end[row] >= from && end[row] < to) {
      freed += size[row];
      frees++;
    }
    if (row < before || start[row] < from) continue;
    allocated += size[row];
    allocations++;
    if (end[row] >= to) {
      keptUnits += size[row];
      kept++;
    }
  }
  const peak = session.index.highestIn(from, to);
  const isTimed = session.device.time_us !== undefined && session.device.time_us !== null;
  const durationUs = isTimed ? (await session.cell('time', to - 1)) - (await session.cell('time', from)) : undefined;
  const stacks = await session.stacks();
  const sites = siteTotalsIn(session.lifetimes, session.stack, stacks.sites, stacks.siteCount, {from, to});
  return {
    from,
    to,
    allocatedBytes: allocated * unitBytes,
    allocations,
    freedBytes: freed * unitBytes,
    frees,
    keptBytes: keptUnits * unitBytes,
    kept,
    peak: {entry: peak.entry, bytes: peak.total * unitBytes},
    startBytes: from === 0 ? 0 : session.index.totalAfter(from - 1) * unitBytes,
    endBytes: session.index.totalAfter(to - 1) * unitBytes,
    reservedBytes: (await session.pieces()).index.highestIn(from, to).total * unitBytes,
    ...(durationUs !== undefined ? {durationUs} : {}),
    sites: sites.slice(0, SITES_MAX).map(one => ({...one, label: stacks.describeSite(one.site)})),
    otherSites: Math.max(0, sites.length - SITES_MAX),
  };
}
