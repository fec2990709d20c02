import {describe, expect, it} from 'vitest';
import type {Curve} from '../../data/curves';
import {fileAfter, median, ordered, outlierOf, type Rank} from './overview';

function rank(file: number, name: string, bytes: number, device = 0): Rank {
  const peak = {bytes, entry: 0};
  const none = {entries: 1, bytes: [], reserved_bytes: [], ooms: [], iterations: []};
  return {file, name, curve: {device, measure: 'active_bytes', peak, reserved_peak: peak, ...none} as Curve};
}

describe('many recordings', () => {
  const ranks = [rank(0, 'rank0', 100), rank(1, 'rank1', 101), rank(2, 'rank2', 140), rank(3, 'rank10', 99)];

  it('have an outlier where one is far from the median', () => {
    const outlier = outlierOf(ranks);
    expect([outlier?.rank.name, outlier?.medianBytes, outlier?.differenceBytes]).toEqual(['rank2', 100.5, 39.5]);
    expect(outlierOf([...ranks.slice(0, 2), rank(2, 'rank2', 50)])?.differenceBytes).toBe(-50);
    expect(outlierOf([rank(0, 'a', 100), rank(1, 'b', 101), rank(2, 'c', 102)])).toBeUndefined();
    expect(outlierOf(ranks.slice(1, 3)), 'of two, neither is').toBeUndefined();
  });

  it('are ordered by peak, or by name as people count', () => {
    expect(ordered(ranks, 'peak').map(({name}) => name)).toEqual(['rank2', 'rank1', 'rank0', 'rank10']);
    expect(ordered(ranks, 'name').map(({name}) => name)).toEqual(['rank0', 'rank1', 'rank2', 'rank10']);
    const devices = [rank(0, 'a', 5, 1), rank(0, 'a', 5, 0)];
    expect(ordered(devices, 'peak').map(({curve}) => curve.device)).toEqual([0, 1]);
  });

  it('have a middle', () => {
    expect([median([]), median([3]), median([4, 1]), median([9, 1, 2])]).toEqual([0, 3, 2.5, 2]);
  });

  it('are stepped through round and round, without those that were not read', () => {
    const files = [
      {id: 0, state: 'ready'},
      {id: 1, state: 'failed'},
      {id: 2, state: 'reading'},
    ];
    expect([fileAfter(files, 0, 1), fileAfter(files, 2, 1), fileAfter(files, 0, -1), fileAfter([], 0, 1)]).toEqual([
      2, 0, 2, 0,
    ]);
  });
});
