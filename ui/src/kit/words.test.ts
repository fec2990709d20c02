import {describe, expect, it} from 'vitest';
import {asInMessages, ordinal} from '../model/units';
import {filled} from '../views/summary/histograms';
import {asSentence} from './prose';

describe('words', () => {
  it('are sentences with a full stop, and only one', () => {
    expect(['a limit', '`x` is', 'Done.', ' '].map(asSentence)).toEqual(['A limit.', '`x` is.', 'Done.', '']);
  });

  it('count as people do', () => {
    expect([1, 2, 3, 4, 11, 12, 13, 21, 102, 1111].map(ordinal)).toEqual([
      '1st',
      '2nd',
      '3rd',
      '4th',
      '11th',
      '12th',
      '13th',
      '21st',
      '102nd',
      '1,111th',
    ]);
  });

  it('have sizes as PyTorch writes them', () => {
    expect([0, 512, 1024, 2 ** 28, 8442794496].map(asInMessages)).toEqual([
      '0 B',
      '512 B',
      '1.00 KiB',
      '256.00 MiB',
      '7.86 GiB',
    ]);
  });
});

describe('a histogram', () => {
  it('has no empty rows', () => {
    const upTo = [1, 2, 4, 8];
    const of = (...count: number[]) => ({upTo, count: Float64Array.from(count)});
    expect(filled([of(0, 1, 0, 0), of(0, 0, 0, 2)])).toEqual([1, 3]);
    expect(filled([of(0, 0, 0, 0)])).toEqual([]);
  });
});
