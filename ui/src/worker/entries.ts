/** The entries of the trace, as a list: what each did. */

import type {Column} from '../data/section';
import type {Session} from './session';

/** Names of the codes in `other_action`: `Action::NAMES` in `crates/snapshot/src/entries.rs`. */
const ACTIONS = [
  'alloc',
  'free_requested',
  'free_completed',
  'segment_alloc',
  'segment_free',
  'segment_map',
  'segment_unmap',
  'snapshot',
  'oom',
  'annotate',
];

/** One line. */
export interface EntryLine {
  readonly entry: number;
  readonly action: string;
  /** The lifetime that it is about. */
  readonly row?: number;
  readonly bytes: number;
  /** `undefined` where the entry has none. */
  readonly address?: number;
  readonly site: string;
  /** What the device had free, of an out-of-memory error. */
  readonly deviceFreeBytes?: number;
}

/** The entries from `from` up to and without `to`. */
export async function entryLines(session: Session, from: number, to: number): Promise<EntryLine[]> {
  const [others, stacks, frees] = await Promise.all([othersOf(session), session.stacks(), freesOf(session)]);
  const otherActions = session.request.manifest.other_actions ?? [];
  const told: ({entry: number; other: number} | {entry: number; action: string; row: number})[] = [];
  for (let entry = from; entry < Math.min(to, session.device.entries); entry++) {
    const other = others.place.get(entry);
    const about = other === undefined ? rowAt(session, frees, entry) : undefined;
    told.push(about ? {entry, ...about} : {entry, other: other ?? -1});
  }
  const blocks = await blocksOf(
    session,
    told.flatMap(one => ('row' in one ? [one.row] : [])),
  );
  return told.map(one => {
    if ('row' in one) {
      const site = stacks.describeSite(stacks.sites[session.stack[one.row]]);
      return {...one, ...blocks.get(one.row)!, site};
    }
    const {entry, other} = one;
    if (other < 0) return {entry, action: 'unknown action', bytes: 0, site: ''};
    const {action, address, size, stack, free} = others;
    return {
      entry,
      action: ACTIONS[action[other]] ?? otherActions[action[other] - ACTIONS.length] ?? 'unknown action',
      bytes: size[other],
      ...(address[other] > 0 ? {address: address[other]} : {}),
      site: stacks.describeSite(stacks.sites[stack[other]]),
      ...(free[other] >= 0 ? {deviceFreeBytes: free[other]} : {}),
    };
  });
}

/** The lifetime that an entry is about, and what the entry does to it. */
function rowAt(session: Session, frees: Map<number, number>, entry: number): {action: string; row: number} | undefined {
  const {index} = session;
  const started = index.rowStartedBy(entry);
  if (started !== undefined) return {action: 'alloc', row: started};
  const ended = index.rowEndedBy(entry);
  if (ended !== undefined) return {action: 'free_completed', row: ended};
  const freed = frees.get(entry) ?? index.rowEndedBy(entry + 1);
  return freed === undefined ? undefined : {action: 'free_requested', row: freed};
}

/** What was requested for some rows, and where they lie. */
async function blocksOf(session: Session, rows: number[]): Promise<Map<number, {bytes: number; address: number}>> {
  const ascending = Uint32Array.from(rows).sort();
  const [requested, segment, offset, addresses] = await Promise.all([
    session.cells('requested', ascending),
    session.cells('segment', ascending),
    session.cells('offset', ascending),
    session.column('segment_address'),
  ]);
  const {unitBytes} = session.lifetimes;
  const blocks = new Map<number, {bytes: number; address: number}>();
  ascending.forEach((row, i) => {
    blocks.set(row, {bytes: requested[i], address: addresses[segment[i]] + offset[i] * unitBytes});
  });
  return blocks;
}

/** The rows that await their free for longer than an entry, by the entry of their `free_requested`. */
function freesOf(session: Session): Promise<Map<number, number>> {
  return session.once('free-requests', async () => {
    const {requestedAt} = await session.pending();
    return new Map([...requestedAt].map(([row, entry]) => [entry, row]));
  });
}

/** The entries that no lifetime begins or ends with. */
interface Others {
  /** In the columns, by entry. */
  readonly place: Map<number, number>;
  readonly action: Column;
  readonly address: Column;
  readonly size: Column;
  readonly stack: Column;
  readonly free: Column;
}

function othersOf(session: Session): Promise<Others> {
  return session.once('other-entries', async () => {
    const names = ['entry', 'action', 'address', 'size', 'stack', 'free'].map(name => `other_${name}`);
    const [entries, action, address, size, stack, free] = await Promise.all(names.map(name => session.column(name)));
    return {place: new Map(Array.from(entries, (entry, i) => [entry, i])), action, address, size, stack, free};
  });
}
