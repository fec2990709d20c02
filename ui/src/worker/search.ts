/** Search: by stack text, address, size, and what a word says. */

import {isCategoryFound} from '../model/categories';
import {firstRowFrom, type Lifetimes} from '../model/lifetimes';
import {parseQuery, type Term} from '../model/search-query';
import type {Session} from './session';

/** What a search found. */
export interface Found {
  /** How many lifetimes match. */
  readonly count: number;
  /** Their sizes, summed. */
  readonly bytes: number;
}

/** The rows that a query finds: one byte a row. `undefined` for an empty query, which looks for nothing. */
export async function search(session: Session, query: string): Promise<Uint8Array | undefined> {
  const terms = parseQuery(query);
  if (terms.length === 0) return undefined;
  const {lifetimes} = session;
  const matches = new Uint8Array(lifetimes.rows).fill(1);
  for (const term of terms) {
    const holds = await predicate(session, term);
    for (let row = 0; row < matches.length; row++) if (matches[row] && !holds(row)) matches[row] = 0;
  }
  return matches;
}

async function predicate(session: Session, term: Term): Promise<(row: number) => boolean> {
  const {start, end, size, unitBytes, entries, before} = session.lifetimes;
  switch (term.kind) {
    case 'text': {
      const stacks = (await session.stacks()).stacksWith(term.text);
      const categories = session.device.categories?.map(name => isCategoryFound(name, term.text)) ?? [];
      const category = categories.includes(true) ? await session.column('category') : undefined;
      return row => stacks[session.stack[row]] === 1 || (category !== undefined && categories[category[row]]);
    }
    case 'address': {
      const names = ['segment', 'offset', 'segment_address'];
      const [segment, offset, base] = await Promise.all(names.map(name => session.column(name)));
      return row => {
        const first = base[segment[row]] + offset[row] * unitBytes;
        return first <= term.address && term.address < first + Math.max(1, size[row] * unitBytes);
      };
    }
    case 'size': {
      const requested = await session.column('requested');
      const isIn = (bytes: number) => term.low <= bytes && bytes <= term.high;
      return row => isIn(requested[row]) || isIn(size[row] * unitBytes);
    }
    case 'live':
      return row => start[row] <= term.entry && term.entry < end[row];
    case 'never-freed':
      return row => end[row] >= entries;
    case 'before':
      return row => row < before;
  }
}

/** What matches amount to. */
export function summarise(session: Session, matches: Uint8Array): Found {
  const {size, unitBytes} = session.lifetimes;
  let found = 0;
  let units = 0;
  for (let row = 0; row < matches.length; row++) {
    if (!matches[row]) continue;
    found++;
    units += size[row];
  }
  return {count: found, bytes: units * unitBytes};
}

/**
 * The match after a row, or before it, round the ends; without a row, the first one from an entry on.
 *
 * `undefined` if nothing matches.
 */
export function nextMatch(
  lifetimes: Lifetimes,
  matches: Uint8Array,
  row: number | undefined,
  entry: number,
  step: 1 | -1,
): number | undefined {
  const from = row ?? firstRowFrom(lifetimes, entry) - (step === 1 ? 1 : 0);
  for (let i = 1; i <= matches.length; i++) {
    const at = (((from + step * i) % matches.length) + matches.length) % matches.length;
    if (matches[at]) return at;
  }
  return undefined;
}
