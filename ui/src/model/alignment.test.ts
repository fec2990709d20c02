import {describe, expect, it} from 'vitest';
import type {Curve} from '../data/curves';
import {aligned, alignmentOf, canAlign, highestOf, iterationAt, partAt, wholeAxis} from './alignment';

const curve = (more: Partial<Curve> = {}): Curve => ({
  device: 0,
  entries: 100,
  measure: 'active_bytes',
  peak: {bytes: 900, entry: 42},
  reserved_peak: {bytes: 1000, entry: 42},
  bytes: [100, 900, 300, 200],
  reserved_bytes: [1000, 1000, 1000, 1000],
  ooms: [],
  iterations: [],
  ...more,
});

describe('recordings on one axis', () => {
  const stepped = curve({
    iterations: [
      [20, 40],
      [40, 60],
      [62, 80],
    ],
  });

  it('are aligned by iteration where all have some, else by entry', () => {
    expect(alignmentOf([stepped, stepped])).toBe('iteration');
    expect(alignmentOf([stepped, curve()])).toBe('entry');
    expect(canAlign([stepped, curve()], 'time')).toBe(false);
    expect(canAlign([curve({time_us: [0, 1, 2, 3, 4]})], 'time')).toBe(true);
  });

  it('have each entry at a place of its iteration', () => {
    expect([0, 10, 20, 30, 40, 61, 62, 71, 80, 90, 100].map(entry => iterationAt(stepped, entry))).toEqual([
      -1,
      -0.5,
      0,
      0.5,
      1,
      1 + 21 / 22,
      2,
      2.5,
      3,
      3.5,
      4,
    ]);
    expect(Array.from(aligned(stepped, 'iteration').positions)).toEqual([-1, 0.25, 1 + 10 / 22, 2 + 13 / 18, 4]);
  });

  it('say what they held at a place, and nothing beyond their ends', () => {
    const one = aligned(curve(), 'entry');
    expect([0, 24.9, 25, 50, 99.9, 100, -1].map(place => partAt(one, place))).toEqual([0, 0, 1, 2, 3, -1, -1]);
    expect(partAt(aligned(curve({entries: 0, bytes: []}), 'entry'), 0)).toBe(-1);
  });

  it('share an axis that holds all of them', () => {
    const later = aligned(curve({time_us: [0, 10, 20, 30, 50]}), 'time');
    const longer = aligned(curve({time_us: [0, 10, 20, 30, 75]}), 'time');
    expect(wholeAxis([later, longer])).toEqual({from: 0, to: 75});
    expect(wholeAxis([])).toEqual({from: 0, to: 1});
    expect(highestOf([curve(), curve({peak: {bytes: 5000, entry: 1}})])).toBe(5000);
  });
});
