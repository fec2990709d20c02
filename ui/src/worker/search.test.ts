import {describe, expect, it} from 'vitest';
import {madeUp} from '../testing/lifetimes';
import {nextMatch} from './search';

describe('stepping through what was found', () => {
  const lifetimes = madeUp(1, 100, 5, 2);
  const matches = new Uint8Array(lifetimes.rows);
  matches[3] = 1;
  matches[10] = 1;

  it('goes on from the last one, and round the ends', () => {
    expect(nextMatch(lifetimes, matches, 3, 0, 1)).toBe(10);
    expect(nextMatch(lifetimes, matches, 10, 0, 1)).toBe(3);
    expect(nextMatch(lifetimes, matches, 3, 0, -1)).toBe(10);
  });

  it('begins where one looks', () => {
    expect(nextMatch(lifetimes, matches, undefined, lifetimes.start[10], 1)).toBe(10);
    expect(nextMatch(lifetimes, matches, undefined, 0, 1)).toBe(3);
    expect(nextMatch(lifetimes, matches, undefined, lifetimes.start[10], -1)).toBe(3);
  });

  it('finds nothing where nothing matches', () => {
    expect(nextMatch(lifetimes, new Uint8Array(lifetimes.rows), undefined, 0, 1)).toBeUndefined();
  });
});
