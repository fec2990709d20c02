/** The entries of the trace, as a list: what each did. */

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
  const lookUp = await lookUpOf(session);
  const last = Math.min(to, session.device.entries);
  const entries = Array.from({length: Math.max(0, last - from)}, (_, i) => from + i);
  return Promise.all(entries.map(lookUp));
}

function lookUpOf(session: Session): Promise<(entry: number) => Promise<EntryLine>> {
  return session.once('entry-lines', async () => {
    const others = ['entry', 'action', 'address', 'size', 'stack', 'free'].map(name => `other_${name}`);
    const [entries, action, address, size, stack, free] = await Promise.all(others.map(name => session.column(name)));
    const [stacks, pending] = await Promise.all([session.stacks(), session.pending()]);
    const {unitBytes} = session.lifetimes;
    const requestedBy = new Map([...pending.requestedAt].map(([row, entry]) => [entry, row]));
    const place = new Map(Array.from(entries, (entry, i) => [entry, i]));
    const about = async (entry: number, what: string, row: number): Promise<EntryLine> => {
      const cells = ['requested', 'segment', 'offset'].map(name => session.cell(name, row));
      const [bytes, segment, offset] = await Promise.all(cells);
      const address = (await session.cell('segment_address', segment)) + offset * unitBytes;
      return {entry, action: what, row, bytes, address, site: stacks.describeSite(stacks.sites[session.stack[row]])};
    };
    return async (entry: number): Promise<EntryLine> => {
      const other = place.get(entry);
      if (other !== undefined) {
        return {
          entry,
          action: ACTIONS[action[other]] ?? 'unknown action',
          bytes: size[other],
          ...(address[other] > 0 ? {address: address[other]} : {}),
          site: stacks.describeSite(stacks.sites[stack[other]]),
          ...(free[other] >= 0 ? {deviceFreeBytes: free[other]} : {}),
        };
      }
      const started = session.index.rowStartedBy(entry);
      if (started !== undefined) return about(entry, 'alloc', started);
      const ended = session.index.rowEndedBy(entry);
      if (ended !== undefined) return about(entry, 'free_completed', ended);
      const freed = requestedBy.get(entry) ?? session.index.rowEndedBy(entry + 1);
      if (freed !== undefined) return about(entry, 'free_requested', freed);
      return {entry, action: 'unknown action', bytes: 0, site: ''};
    };
  });
}
