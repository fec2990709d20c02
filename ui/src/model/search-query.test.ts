import {describe, expect, it} from 'vitest';
import {parseQuery} from './search-query';

describe('a query', () => {
  it('is terms that must all hold', () => {
    expect(parseQuery('forward size>1MiB at:1,234 unfreed before 0x7f1200000000')).toEqual([
      {kind: 'text', text: 'forward'},
      {kind: 'size', low: 1_048_577, high: Number.POSITIVE_INFINITY},
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
    expect(parseQuery('"size:512" "a b"')).toEqual([
      {kind: 'text', text: 'size:512'},
      {kind: 'text', text: 'a b'},
    ]);
    expect(parseQuery('   ')).toEqual([]);
  });

  it('knows ranges and relations of sizes', () => {
    const bounds = (text: string) => parseQuery(text).map(term => ('low' in term ? [term.low, term.high] : term));
    expect(bounds('size:512')).toEqual([[512, 512]]);
    expect(bounds('size=2k')).toEqual([[2048, 2048]]);
    expect(bounds('size<1KiB')).toEqual([[0, 1023]]);
    expect(bounds('size<=1KiB')).toEqual([[0, 1024]]);
    expect(bounds('size>=1.5GiB')).toEqual([[1_610_612_736, Number.POSITIVE_INFINITY]]);
    expect(bounds('size:1KiB..1MB')).toEqual([[1024, 1_000_000]]);
  });

  it('says what a size looks like when it is none', () => {
    expect(() => parseQuery('size>lots')).toThrow('`lots` is not a size');
  });
});
