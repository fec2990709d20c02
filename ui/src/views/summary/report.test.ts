import {describe, expect, it} from 'vitest';
import {frameWords, queryOf, settingWords} from './report';
import {summedUp} from './totals-chart';

describe('the words of the report', () => {
  it('say a setting that is a table in a word where it says one thing', () => {
    expect(settingWords('roundup_power2_divisions', {'1': 0, '2': 0})).toBe('off');
    expect(settingWords('roundup_power2_divisions', {'1': 4, '2': 4})).toBe('4');
    expect(settingWords('roundup_power2_divisions', {'1': 0, '2': 4})).toBe('1:0, 2:4');
    expect(settingWords('max_split_size', -1)).toBe('unlimited');
    expect(settingWords('PYTORCH_CUDA_ALLOC_CONF', '')).toBe('not set');
  });

  it('find a call site again by file and line, a label by its words', () => {
    expect(queryOf({frames: [{name: 'f', filename: 'C:\\x.py', line: 3}]})).toBe('"C:\\x.py:3"');
    expect(queryOf({frames: [], label: '(no stack recorded)'})).toBe('"(no stack recorded)"');
    expect(queryOf({frames: []})).toBeUndefined();
    expect(frameWords({name: 'f', filename: 'C:\\x.py', line: 3})).toBe('x.py:3 f');
    expect(frameWords({name: 'at::empty', filename: '??', line: 0})).toBe('at::empty');
  });
});

describe('the table of totals', () => {
  it('keeps every extreme of the columns that a row stands for', () => {
    const totals = {
      entries: Uint32Array.of(0, 10, 20, 30, 40),
      highBytes: Float64Array.of(5, 9, 7, 8, 6),
      lowBytes: Float64Array.of(1, 2, 0, 4, 3),
      reservedBytes: Float64Array.of(10, 11, 12, 10, 9),
    };
    expect(summedUp(totals, 2)).toEqual([
      {entry: 0, low: 1, high: 9, reserved: 11},
      {entry: 20, low: 0, high: 8, reserved: 12},
    ]);
    expect(summedUp(totals, 100)).toHaveLength(5);
  });
});
