import {describe, expect, it} from 'vitest';
import {type DeviceReport, frameWords, placesOf, queryOf, settingWords} from './report';
import {summedUp} from './totals-chart';

const NONE: DeviceReport = {
  device: 0,
  entries: 100,
  start: {},
  end: {},
  peak: {reserved_entry: 40, active_entry: 50},
  block_sizes: {known: 'exact'},
  fragmentation: {},
  iterations: [],
  growth: [],
  oom: [],
  findings: [],
};

describe('the places of findings', () => {
  it('of an error are its entry and the state that it met', () => {
    const error = {entry: 7, requested_bytes: 1, allocated_bytes: 1, reserved_bytes: 1, explanation: '', frames: []};
    const places = placesOf({id: 'oom'}, {...NONE, oom: [error]});
    expect(places.map(({view, cursor}) => [view, cursor])).toEqual([
      ['timeline', 7],
      ['state', 7],
    ]);
  });

  it('of growth are the iterations that the report counts, with its first line searched for', () => {
    const iteration = {complete: true, peak_requested_bytes: 0, end_requested_bytes: 0, phases: []};
    const device = {
      ...NONE,
      iterations: [
        {...iteration, complete: false, start_entry: 0, end_entry: 9},
        {...iteration, start_entry: 10, end_entry: 19},
        {...iteration, start_entry: 20, end_entry: 29},
        {...iteration, start_entry: 30, end_entry: 39},
        {...iteration, start_entry: 40, end_entry: 49},
      ],
      growth: [
        {
          bytes_per_iteration: 1,
          bytes: 2,
          count: 2,
          iterations: 2,
          counted: 2,
          frames: [{name: 'f', filename: 'a b.py', line: 3}],
        },
      ],
    };
    const [first] = placesOf({id: 'growth'}, device);
    expect(first.selection).toEqual({from: 20, to: 40});
    expect(first.query).toBe('"a b.py:3"');
  });

  it('of a finding that this page does not know are none', () => {
    expect(placesOf({id: 'of-a-later-version'}, NONE)).toEqual([]);
  });

  it('of an error without entries and growth without iterations are none', () => {
    expect(placesOf({id: 'oom'}, NONE)).toEqual([]);
    expect(placesOf({id: 'growth'}, NONE)).toEqual([]);
  });
});

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
