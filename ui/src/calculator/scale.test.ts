import {describe, expect, it} from 'vitest';
import {nearest, stops} from './scale';

describe('a slider', () => {
  it('stops four times for each doubling, at whole numbers', () => {
    expect(stops(1, 16)).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16]);
    expect(stops(16, 64)).toEqual([16, 20, 24, 28, 32, 40, 48, 56, 64]);
  });

  it('stands at the stop that is nearest, as ratios go', () => {
    const all = stops(1, 4096);
    for (const [place, stop] of all.entries()) expect(nearest(all, stop)).toBe(place);
    expect(all[nearest(all, 9.1)]).toBe(10);
    expect(all[nearest(all, 1e9)]).toBe(4096);
    for (const value of [0, -1, Number.NaN]) expect(nearest(all, value)).toBe(0);
  });
});
