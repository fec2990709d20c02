import {describe, expect, it} from 'vitest';
import {sortedRows} from './sort';

const totals = {
  key: Uint32Array.of(3, 5, 8, 9),
  self: Float64Array.of(1, 7, 7, 0),
  selfCount: Float64Array.of(1, 1, 1, 0),
  total: Float64Array.of(9, 7, 8, 15),
  totalCount: Float64Array.of(2, 1, 1, 3),
};
const labelOf = (key: number) => ({3: 'd', 5: 'a', 8: 'c', 9: 'b'})[key] ?? '';

describe('the rows of the table of frames', () => {
  it('come largest first, equal ones in a fixed order', () => {
    expect(Array.from(sortedRows(totals, 'self', false, labelOf))).toEqual([1, 2, 0, 3]);
    expect(Array.from(sortedRows(totals, 'total', false, labelOf))).toEqual([3, 0, 2, 1]);
    expect(Array.from(sortedRows(totals, 'total', true, labelOf))).toEqual([1, 2, 0, 3]);
  });

  it('come by name from a to z', () => {
    expect(Array.from(sortedRows(totals, 'name', false, labelOf))).toEqual([1, 3, 2, 0]);
  });

  it('are those that the search wants', () => {
    expect(Array.from(sortedRows(totals, 'self', false, labelOf, key => key > 5))).toEqual([2, 3]);
  });
});
