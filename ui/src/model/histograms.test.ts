import {describe, expect, it} from 'vitest';
import {madeUp, naiveLive} from '../testing/lifetimes';
import {bucketOf, entryBounds, histogramsOf, sizeBounds, timeBounds} from './histograms';

describe('the histograms', () => {
  it('count each allocation of the recording once', () => {
    for (let seed = 1; seed < 30; seed++) {
      const lifetimes = madeUp(seed, 500, 20);
      const {rows, before, size, end, start, entries} = lifetimes;
      const times = Float64Array.from({length: entries}, (_, i) => i * i);
      const live = naiveLive(lifetimes, 250);
      const made = histogramsOf(lifetimes, live, times);
      const sum = (column: Float64Array) => column.reduce((a, b) => a + b, 0);
      expect(sum(made.sizes.count)).toBe(rows - before);
      expect(sum(made.sizesAtPeak.count)).toBe(live.length);
      expect(sum(made.entries.count) + made.unfreed.count).toBe(rows - before);
      expect(sum(made.entries.bytes) + made.unfreed.bytes).toBe(sum(made.sizes.bytes));
      expect(sum(made.times!.count)).toBe(sum(made.entries.count));
      // Bucket by bucket, by looking at every row.
      const all = Array.from({length: rows - before}, (_, i) => before + i);
      made.sizes.upTo.forEach((bound, i) => {
        const above = i === 0 ? 0 : made.sizes.upTo[i - 1];
        const inside = all.filter(row => size[row] * 512 > above && size[row] * 512 <= bound);
        expect(made.sizes.count[i]).toBe(inside.length);
      });
      made.entries.upTo.forEach((bound, i) => {
        const above = i === 0 ? 0 : made.entries.upTo[i - 1];
        const lasted = (row: number) => end[row] - start[row];
        const inside = all.filter(row => end[row] < entries && lasted(row) > above && lasted(row) <= bound);
        expect(made.entries.count[i]).toBe(inside.length);
      });
    }
  });

  it('have bounds that hold the largest value and rise', () => {
    for (const bounds of [sizeBounds(1), sizeBounds(512), sizeBounds(513), sizeBounds(80 * 2 ** 30)]) {
      expect(bounds).toEqual(bounds.toSorted((a, b) => a - b));
    }
    expect(sizeBounds(513)).toEqual([512, 1024]);
    expect(entryBounds(5)).toEqual([1, 2, 4, 8]);
    expect(timeBounds(1999)).toEqual([10, 20, 50, 100, 200, 500, 1000, 2000]);
  });

  it('put a bound itself below it', () => {
    expect(bucketOf([512, 1024], 512)).toBe(0);
    expect(bucketOf([512, 1024], 513)).toBe(1);
  });
});
