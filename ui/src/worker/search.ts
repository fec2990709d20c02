/** Search: by stack text, address, size, lifetime, and what a word says. */

import {Problem} from '../data/source';
import {categoryWords, isCategoryFound} from '../model/categories';
import {firstRowFrom, type Lifetimes} from '../model/lifetimes';
import {type Bounds, parseQuery, type Term} from '../model/search-query';
import type {Session} from './session';

/** What a search found. */
export interface Found {
  /** How many lifetimes match. */
  readonly count: number;
  /** Their sizes, summed. */
  readonly bytes: number;
  /**
   * For each frame, then for each label of stacks without frames, whether a text or a regular expression of the query is in
   * it: one byte each. `undefined` where the query has neither.
   */
  readonly sites?: Uint8Array;
}

/** One that was found, in a line. */
export interface Hit {
  readonly row: number;
  readonly sizeBytes: number;
  /** Where it begins; undefined before the recording. */
  readonly entry?: number;
  readonly site: string;
}

/** Everything that a search made. */
export interface Searched {
  readonly found: Found;
  /** One byte a row. */
  readonly matches: Uint8Array;
}

/** Rows that are looked at without a pause: pictures are made between. */
const ROWS_AT_ONCE = 1 << 19;

/**
 * The rows that a query finds; `undefined` for an empty query, which looks for nothing, and where `isWanted` has become false.
 * `matched` says of each regular expression which of `searchTexts` it matches.
 *
 * Throws a `Problem` where a term is malformed, or asks for what the file does not have.
 */
export async function search(
  session: Session,
  query: string,
  matched: readonly Uint8Array[],
  isWanted: () => boolean,
): Promise<Searched | undefined> {
  const terms = parseQuery(query);
  if (terms.length === 0) return undefined;
  const {lifetimes} = session;
  const texts = new Texts(session, [...matched]);
  const predicates: Predicate[] = [];
  for (const term of terms) predicates.push(await predicateOf(session, texts, term));
  const {size, unitBytes, rows} = lifetimes;
  const matches = new Uint8Array(rows);
  let count = 0;
  let units = 0;
  for (let row = 0; row < rows; ) {
    for (const until = Math.min(rows, row + ROWS_AT_ONCE); row < until; row++) {
      let holds = true;
      for (let i = 0; holds && i < predicates.length; i++) holds = predicates[i](row);
      if (!holds) continue;
      matches[row] = 1;
      count++;
      units += size[row];
    }
    if (row < rows) await pause();
    if (!isWanted()) return undefined;
  }
  const sites = texts.sites();
  return {found: {count, bytes: units * unitBytes, ...(sites ? {sites} : {})}, matches};
}

/** Lets what else was asked of the worker be answered. */
function pause(): Promise<void> {
  return new Promise(go => setTimeout(go));
}

type Predicate = (row: number) => boolean;

async function predicateOf(session: Session, texts: Texts, term: Term): Promise<Predicate> {
  const {device} = session;
  const {start, end, size, unitBytes, entries, before} = session.lifetimes;
  switch (term.kind) {
    case 'not': {
      const holds = await predicateOf(session, texts.apart(), term.term);
      return row => !holds(row);
    }
    case 'text':
    case 'regex': {
      const {stacks, categories} = await texts.look(term);
      const category = categories.includes(true) ? await session.column('category') : undefined;
      const {stack} = session;
      if (!category) return row => stacks[stack[row]] === 1;
      return row => stacks[stack[row]] === 1 || categories[category[row]];
    }
    case 'category': {
      if (!device.categories) throw new Problem({error: 'the recording has no categories'});
      const isIn = device.categories.map(name => isCategoryFound(name, term.text));
      const category = await session.column('category');
      return row => isIn[category[row]];
    }
    case 'stream': {
      const isIn = device.streams.map(handle => handle.toLowerCase() === term.text.toLowerCase());
      const stream = await session.column('stream');
      return row => isIn[stream[row]];
    }
    case 'pool': {
      const isIn = device.pools.map(({label}) => label.toLowerCase().includes(term.text.toLowerCase()));
      const pool = await session.column('pool');
      return row => isIn[pool[row]] ?? false;
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
      return row => isIn(term, requested[row]) || isIn(term, size[row] * unitBytes);
    }
    case 'lived': {
      if (term.unit === 'entries') return row => isIn(term, end[row] - start[row]);
      if (!device.time_us) {
        throw new Problem({error: 'the recording has no times', hint: 'write `lived>100` for entries'});
      }
      const times = await session.times();
      const last = times.length - 1;
      return row => isIn(term, times[Math.min(end[row], last)] - times[start[row]]);
    }
    case 'live':
      return row => start[row] <= term.entry && term.entry < end[row];
    case 'never-freed':
      return row => end[row] >= entries;
    case 'before':
      return row => row < before;
  }
}

function isIn({low, high}: Bounds, value: number): boolean {
  return low <= value && value <= high;
}

/** What a regular expression is looked for in: frames and labels by their sites, then categories. */
export async function searchTexts(session: Session): Promise<string[]> {
  const categories = session.device.categories ?? [];
  return [...(await session.stacks()).siteTexts(), ...categories.map(name => `${name}\n${categoryWords(name)}`)];
}

/** What texts and regular expressions are looked for in: frames, labels, and categories. */
class Texts {
  private readonly session: Session;
  /** What the regular expressions match that are still to come. */
  private readonly matched: Uint8Array[];
  private found: Uint8Array | undefined;

  constructor(session: Session, matched: Uint8Array[]) {
    this.session = session;
    this.matched = matched;
  }

  /** The same, for what is not to be shown as found. */
  apart(): Texts {
    return new Texts(this.session, this.matched);
  }

  /** The frames and labels that any term was found in. */
  sites(): Uint8Array | undefined {
    return this.found;
  }

  /** Which stacks and which categories a term is in. */
  async look(term: Extract<Term, {kind: 'text' | 'regex'}>): Promise<{stacks: Uint8Array; categories: boolean[]}> {
    const {session} = this;
    const stacks = await session.stacks();
    const names = session.device.categories ?? [];
    let sites: Uint8Array;
    let categories: boolean[];
    if (term.kind === 'text') {
      sites = stacks.sitesWith(term.text);
      categories = names.map(name => isCategoryFound(name, term.text));
    } else {
      const matched = this.matched.shift();
      if (matched?.length !== stacks.siteCount + names.length)
        throw new Problem({error: 'another file was opened meanwhile'});
      sites = matched.subarray(0, stacks.siteCount);
      categories = Array.from(matched.subarray(stacks.siteCount), one => one === 1);
    }
    const {found} = this;
    this.found = found ? found.map((one, i) => one | sites[i]) : sites.slice();
    return {stacks: stacks.stacksThrough(sites), categories};
  }
}

/** The number of a match, from 1; `undefined` if the row is none. */
export function matchNumber(matches: Uint8Array, row: number): number | undefined {
  if (!matches[row]) return undefined;
  let number = 0;
  for (let at = 0; at <= row; at++) number += matches[at];
  return number;
}

/** Matches in the order of their rows: `count` of them after the first `skipped`. */
export async function hits(session: Session, matches: Uint8Array, skipped: number, count: number): Promise<Hit[]> {
  const {start, size, unitBytes, before} = session.lifetimes;
  const stacks = await session.stacks();
  const found: Hit[] = [];
  for (let row = 0, seen = 0; row < matches.length && found.length < count; row++) {
    if (!matches[row] || seen++ < skipped) continue;
    const site = stacks.describeSite(stacks.sites[session.stack[row]]);
    found.push({row, sizeBytes: size[row] * unitBytes, site, ...(row >= before ? {entry: start[row]} : {})});
  }
  return found;
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
