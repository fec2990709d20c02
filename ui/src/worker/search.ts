/** Search: by stack text, address, size, and what a word says. */

import {Problem} from '../data/source';
import {firstRowFrom, type Lifetimes} from '../model/lifetimes';
import {parseBytes} from '../model/units';
import type {Session} from './session';

/** What a search found. */
export interface Found {
  /** How many lifetimes match. */
  readonly count: number;
  /** Their sizes, summed. */
  readonly bytes: number;
}

/** One condition of a query. */
type Term =
  | {kind: 'text'; text: string}
  | {kind: 'address'; address: number}
  | {kind: 'size'; low: number; high: number}
  | {kind: 'live'; entry: number}
  | {kind: 'never-freed'}
  | {kind: 'before'};

/**
 * The terms of a query, which must all hold: `text of a stack`, `0x7f…`, `size:512`, `size>1MiB`, `at:1234`, `unfreed`,
 * `before`. A term in quotes is text, whatever it looks like.
 */
export function parseQuery(query: string): Term[] {
  const words = query.match(/"[^"]*"|\S+/g) ?? [];
  return words.map(word => {
    if (word.startsWith('"')) return {kind: 'text', text: word.replaceAll('"', '')};
    if (/^(b|0x)[0-9a-f]{6,}(_\d+)?$/i.test(word)) {
      return {kind: 'address', address: Number.parseInt(word.replace(/^(b|0x)/i, '').replace(/_\d+$/, ''), 16)};
    }
    const size = /^size([:=<>]=?)(.+)$/.exec(word);
    if (size) return sizeTerm(word, size[1], size[2]);
    const at = /^at:([\d,_]+)$/.exec(word);
    if (at) return {kind: 'live', entry: Number(at[1].replace(/[,_]/g, ''))};
    if (word === 'unfreed') return {kind: 'never-freed'};
    if (word === 'before') return {kind: 'before'};
    return {kind: 'text', text: word};
  });
}

function sizeTerm(word: string, relation: string, text: string): Term {
  const range = text.split('..');
  if (range.length === 2) return {kind: 'size', low: parseBytes(range[0]), high: parseBytes(range[1])};
  const bytes = parseBytes(text);
  switch (relation) {
    case '<':
      return {kind: 'size', low: 0, high: bytes - 1};
    case '<=':
      return {kind: 'size', low: 0, high: bytes};
    case '>':
      return {kind: 'size', low: bytes + 1, high: Number.POSITIVE_INFINITY};
    case '>=':
      return {kind: 'size', low: bytes, high: Number.POSITIVE_INFINITY};
    case ':':
    case '=':
      return {kind: 'size', low: bytes, high: bytes};
    default:
      throw new Problem({
        error: `\`${word}\` is not understood`,
        hint: 'write `size:512`, `size>1MiB` or `size:1KiB..1MiB`',
      });
  }
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
      const categories = session.device.categories?.map(name => name.includes(term.text)) ?? [];
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
