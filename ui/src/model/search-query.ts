/** What is searched for: the terms of a query. */

import {Problem} from '../data/source';
import {parseBytes} from './units';

/** One condition of a query. */
export type Term =
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
