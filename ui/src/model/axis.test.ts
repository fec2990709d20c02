import {describe, expect, it} from 'vitest';
import {entryAxis, timeAxis, translated} from './axis';

describe('a visible stretch on the other axis', () => {
  // Ten entries, the fourth to the sixth of one moment.
  const times = Float64Array.of(0, 10, 30, 100, 100, 100, 250, 400, 410, 1000);
  const [entries, time] = [entryAxis(10), timeAxis(times)];

  it('has the same entries, there and back', () => {
    const there = translated({from: 1, to: 7}, entries, time);
    expect(there).toEqual({from: 10, to: 400});
    expect(translated(there!, time, entries)).toEqual({from: 1, to: 7});
  });

  it('rounds outwards, so that nothing is lost', () => {
    expect(translated({from: 1.7, to: 6.2}, entries, time)).toEqual({from: 10, to: 400});
  });

  it('is the whole where it has all entries', () => {
    expect(translated({from: 0, to: 10}, entries, time)).toBeNull();
  });

  it('has a length also where its entries are of one moment', () => {
    const there = translated({from: 3, to: 5}, entries, time)!;
    expect(there.to).toBeGreaterThan(there.from);
    expect(there.from).toBe(100);
  });
});
