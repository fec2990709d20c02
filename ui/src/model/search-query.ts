/** What is searched for: the terms of a query. */

import {Problem} from '../data/source';
import {parseBytes} from './units';

/** Numbers from `low` to `high`, both of them in it. */
export interface Bounds {
  readonly low: number;
  readonly high: number;
}

/** One condition of a query. */
export type Term =
  | {kind: 'text'; text: string}
  | {kind: 'regex'; source: string}
  | {kind: 'category' | 'stream' | 'pool'; text: string}
  | {kind: 'address'; address: number}
  | ({kind: 'size'} & Bounds)
  /** `us`: in microseconds. */
  | ({kind: 'lived'; unit: 'entries' | 'us'} & Bounds)
  | {kind: 'live'; entry: number}
  | {kind: 'never-freed'}
  | {kind: 'before'}
  | {kind: 'not'; term: Term};

/** What can be written, for the list under the empty box. */
export const EXAMPLES: readonly {readonly words: string; readonly help: string}[] = [
  {words: 'forward', help: 'in a function, a file or a category'},
  {words: '"optimizer state"', help: 'words with a space'},
  {words: '/adamw?\\.py:\\d+/', help: 'a regular expression'},
  {words: '-forward', help: 'not this; also !forward'},
  {words: 'category:gradient', help: 'also stream:0, pool:private'},
  {words: 'size>1MiB', help: 'also size:512, size:1KiB..1MiB'},
  {words: 'lived>10ms', help: 'or lived>100, in entries'},
  {words: 'unfreed', help: 'active at the dump; before: from before the recording'},
  {words: 'at:1234', help: 'active after an entry'},
  {words: '0x7f0000000000', help: 'blocks that held an address'},
];

/** A word: with quotes in it, or a regular expression between slashes; `-` or `!` in front of it turns it round. */
const WORD = /([-!]?)(?:\/((?:\\.|[^/\\])+)\/(?=\s|$)|((?:"[^"]*"?|[^\s"])+))/g;

/**
 * The terms of a query, which must all hold: see `EXAMPLES`. A term in quotes is text, whatever it looks like.
 *
 * Throws a `Problem` that says what is wrong with a term.
 */
export function parseQuery(query: string): Term[] {
  return Array.from(query.matchAll(WORD), ([, sign, regex, word]) => {
    const term: Term = regex !== undefined ? regexTerm(regex) : wordTerm(word);
    return sign ? {kind: 'not', term} : term;
  });
}

/** The regular expressions of a query, in their order. Throws as `parseQuery`. */
export function regexesOf(query: string): string[] {
  return parseQuery(query).flatMap(term => {
    const one = term.kind === 'not' ? term.term : term;
    return one.kind === 'regex' ? [one.source] : [];
  });
}

function regexTerm(source: string): Term {
  try {
    new RegExp(source, REGEX_FLAGS);
  } catch (error) {
    const [, reason] = /: ([^:]*)$/.exec(String(error)) ?? [];
    throw new Problem({
      error: `\`/${source}/\` is not a regular expression${reason ? `: ${reason.toLowerCase()}` : ''}`,
      hint: 'put literal text in quotes',
    });
  }
  return {kind: 'regex', source};
}

/** Lower and upper case are the same; `^` and `$` are the ends of a name or a place. */
export const REGEX_FLAGS = 'im';

function wordTerm(word: string): Term {
  if (word.startsWith('"')) return {kind: 'text', text: unquoted(word)};
  if (/^\/.*[()[\]{}*+?|^$\\]/.test(word)) {
    throw new Problem({
      error: `\`${word}\` has no \`/\` at its end`,
      hint: 'write a regular expression as `/adamw?/`, and a path in quotes',
    });
  }
  if (/^(b|0x)[0-9a-f]{6,}(_\d+)?$/i.test(word)) {
    return {kind: 'address', address: Number.parseInt(word.replace(/^(b|0x)/i, '').replace(/_\d+$/, ''), 16)};
  }
  const [, name, relation, value] = /^([a-z]+)([:=<>]=?)(.*)$/i.exec(word) ?? [];
  switch (name?.toLowerCase()) {
    case 'size':
      return {kind: 'size', ...bounds(word, relation, value, parseBytes, 'write `size:512`, `size>1MiB`')};
    case 'lived':
      return livedTerm(word, relation, value);
    case 'category':
    case 'stream':
    case 'pool':
      if (relation !== ':' && relation !== '=') break;
      if (unquoted(value) === '') throw new Problem({error: `\`${word}\` lacks a name`, hint: `write \`${word}…\``});
      return {kind: name.toLowerCase() as 'pool', text: unquoted(value)};
    case 'at':
      if (/^:\d[\d,_]*$/.test(`${relation}${value}`)) return {kind: 'live', entry: Number(value.replace(/[,_]/g, ''))};
      throw new Problem({error: `\`${word}\` is not an entry`, hint: 'write `at:1234`'});
  }
  if (word === 'unfreed') return {kind: 'never-freed'};
  if (word === 'before') return {kind: 'before'};
  return {kind: 'text', text: unquoted(word)};
}

function unquoted(text: string): string {
  return text.replaceAll('"', '');
}

function livedTerm(word: string, relation: string, value: string): Term {
  const isTimed = /[a-zµ]/i.test(value);
  const found = bounds(
    word,
    relation,
    value,
    isTimed ? parseDuration : parseEntries,
    'write `lived>10ms`, `lived>100`',
  );
  return {kind: 'lived', unit: isTimed ? 'us' : 'entries', ...found};
}

/** Of whole numbers. */
function bounds(word: string, relation: string, text: string, parse: (text: string) => number, hint: string): Bounds {
  if (text === '') throw new Problem({error: `\`${word}\` lacks a number`, hint});
  const range = text.split('..');
  if (range.length === 2) return {low: parse(range[0]), high: parse(range[1])};
  const value = parse(text);
  switch (relation) {
    case '<':
      return {low: 0, high: Math.ceil(value) - 1};
    case '<=':
      return {low: 0, high: value};
    case '>':
      return {low: Math.floor(value) + 1, high: Number.POSITIVE_INFINITY};
    case '>=':
      return {low: value, high: Number.POSITIVE_INFINITY};
    case ':':
    case '=':
      return {low: value, high: value};
    default:
      throw new Problem({error: `\`${word}\` is not understood`, hint});
  }
}

const US_OF_UNIT: Record<string, number> = {us: 1, µs: 1, ms: 1e3, s: 1e6, min: 60e6, h: 3600e6};

/** Microseconds of `10ms`. */
function parseDuration(text: string): number {
  const [, digits, unit] = /^(\d+(?:\.\d*)?|\.\d+)\s*([a-zµ]+)$/i.exec(text) ?? [];
  const scale = US_OF_UNIT[unit?.toLowerCase()];
  if (scale === undefined) {
    throw new Problem({error: `\`${text}\` is not a time`, hint: 'write it as `200us`, `10ms`, `1.5s` or `2min`'});
  }
  return Number(digits) * scale;
}

function parseEntries(text: string): number {
  if (!/^\d[\d,_]*$/.test(text)) {
    throw new Problem({
      error: `\`${text}\` is not a number of entries`,
      hint: 'write `lived>100`, or a time: `lived>10ms`',
    });
  }
  return Number(text.replace(/[,_]/g, ''));
}
