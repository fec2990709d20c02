import {describe, expect, it} from 'vitest';
import {EXAMPLES, parseQuery} from './search-query';

const MORE = Number.POSITIVE_INFINITY;

describe('a query', () => {
  it('is terms that must all hold', () => {
    expect(parseQuery('forward size>1MiB at:1,234 unfreed before 0x7f1200000000')).toEqual([
      {kind: 'text', text: 'forward'},
      {kind: 'size', low: 1_048_577, high: MORE},
      {kind: 'live', entry: 1234},
      {kind: 'never-freed'},
      {kind: 'before'},
      {kind: 'address', address: 0x7f1200000000},
    ]);
  });

  it('reads the names that PyTorch gives blocks', () => {
    expect(parseQuery('b7f1200000000_3')).toEqual([{kind: 'address', address: 0x7f1200000000}]);
  });

  it('takes what is in quotes as text, whatever it looks like', () => {
    expect(parseQuery('"size:512" "a b" "-x" "/y/"')).toEqual(
      ['size:512', 'a b', '-x', '/y/'].map(text => ({kind: 'text', text})),
    );
    expect(parseQuery('   ')).toEqual([]);
    expect(parseQuery('"not closed yet')).toEqual([{kind: 'text', text: 'not closed yet'}]);
  });

  it('knows ranges and relations of sizes', () => {
    const bounds = (text: string) => parseQuery(text).map(term => ('low' in term ? [term.low, term.high] : term));
    expect(bounds('size:512')).toEqual([[512, 512]]);
    expect(bounds('size=2k')).toEqual([[2048, 2048]]);
    expect(bounds('size<1KiB')).toEqual([[0, 1023]]);
    expect(bounds('size<=1KiB')).toEqual([[0, 1024]]);
    expect(bounds('size>=1.5GiB')).toEqual([[1_610_612_736, MORE]]);
    expect(bounds('size:1KiB..1MB')).toEqual([[1024, 1_000_000]]);
  });

  it('knows how long something lived, in time or in entries', () => {
    expect(parseQuery('lived>10ms lived<=1.5s lived:200us..2min lived>100')).toEqual([
      {kind: 'lived', unit: 'us', low: 10_001, high: MORE},
      {kind: 'lived', unit: 'us', low: 0, high: 1_500_000},
      {kind: 'lived', unit: 'us', low: 200, high: 120_000_000},
      {kind: 'lived', unit: 'entries', low: 101, high: MORE},
    ]);
  });

  it('names categories, streams and pools, in quotes where there is a space', () => {
    expect(parseQuery('category:"optimizer state" stream:7 pool=private')).toEqual([
      {kind: 'category', text: 'optimizer state'},
      {kind: 'stream', text: '7'},
      {kind: 'pool', text: 'private'},
    ]);
  });

  it('turns a term round with a sign in front of it', () => {
    const text = (text: string) => ({kind: 'text', text});
    expect(parseQuery('-forward !"a b" -/x+/ -size:512 - a-b')).toEqual([
      {kind: 'not', term: text('forward')},
      {kind: 'not', term: text('a b')},
      {kind: 'not', term: {kind: 'regex', source: 'x+'}},
      {kind: 'not', term: {kind: 'size', low: 512, high: 512}},
      text('-'),
      text('a-b'),
    ]);
  });

  it('has regular expressions between slashes, and paths as text', () => {
    expect(parseQuery('/adamw?\\.py:\\d+ step/ /a\\/b/')).toEqual([
      {kind: 'regex', source: 'adamw?\\.py:\\d+ step'},
      {kind: 'regex', source: 'a\\/b'},
    ]);
    expect(parseQuery('/home/me/train.py:12 x')).toEqual([
      {kind: 'text', text: '/home/me/train.py:12'},
      {kind: 'text', text: 'x'},
    ]);
    expect(parseQuery('train.py:12')).toEqual([{kind: 'text', text: 'train.py:12'}]);
  });

  it('says what is wrong with a term', () => {
    const problems: [string, RegExp][] = [
      ['size>lots', /`lots` is not a size/],
      ['size>', /`size>` lacks a number/],
      ['lived>soon', /`soon` is not a time/],
      ['lived>1,', /^$/],
      ['lived>-3', /`-3` is not a number of entries/],
      ['at:now', /`at:now` is not an entry/],
      ['category:', /`category:` lacks a name/],
      ['/(/', /`\/\(\/` is not a regular expression: unterminated group/],
      ['/ada(m', /has no `\/` at its end/],
      ['forward -/[/', /`\/\[\/` is not a regular expression/],
    ];
    for (const [query, message] of problems) {
      let said = '';
      try {
        parseQuery(query);
      } catch (error) {
        said = (error as Error).message;
      }
      expect(said, query).toMatch(message);
    }
  });

  it('can be each of the examples', () => {
    for (const {words} of EXAMPLES) expect(parseQuery(words).length).toBe(1);
  });
});
