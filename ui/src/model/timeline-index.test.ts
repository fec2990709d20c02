import {describe, expect, it} from 'vitest';
import {madeUp, naiveLive, naiveTotal, random} from '../testing/lifetimes';
import type {Lifetimes} from './lifetimes';
import {TimelineIndex} from './timeline-index';

/** The same, with nothing in between. */
function rarer(lifetimes: Lifetimes, by: number): Lifetimes {
  const {entries, start, end} = lifetimes;
  return {
    ...lifetimes,
    entries: entries * by,
    start: start.map(entry => entry * by),
    end: end.map(entry => entry * by),
  };
}

describe('the index over lifetimes', () => {
  const cases = [1, 2, 63, 64, 65, 700, 5000].map((entries, i) => madeUp(i + 1, entries, 5 + 20 * i));
  cases.push(rarer(madeUp(8, 300), 10), rarer(madeUp(9, 60), 100));

  it('knows the total after every entry', () => {
    for (const lifetimes of cases) {
      const index = new TimelineIndex(lifetimes);
      for (let entry = 0; entry < lifetimes.entries; entry += lifetimes.entries > 1000 ? 7 : 1) {
        expect(index.totalAfter(entry)).toBe(naiveTotal(lifetimes, entry));
      }
    }
  });

  it('finds what is active after any entry, in order', () => {
    for (const lifetimes of cases) {
      const index = new TimelineIndex(lifetimes);
      const next = random(9);
      for (let i = 0; i < 60; i++) {
        const entry = Math.floor(next() * lifetimes.entries);
        expect(Array.from(index.liveAt(entry))).toEqual(naiveLive(lifetimes, entry));
        const seen: number[] = [];
        index.forEachLive(entry, row => {
          seen.push(row);
          return true;
        });
        expect(seen).toEqual(naiveLive(lifetimes, entry));
      }
    }
  });

  it('finds the first largest and the first smallest total of any stretch', () => {
    for (const lifetimes of cases) {
      const index = new TimelineIndex(lifetimes);
      const totals = Array.from({length: lifetimes.entries}, (_, entry) => naiveTotal(lifetimes, entry));
      const next = random(11);
      for (let i = 0; i < 80; i++) {
        const from = Math.floor(next() * lifetimes.entries);
        const to = from + 1 + Math.floor(next() * (lifetimes.entries - from));
        const stretch = totals.slice(from, to);
        const most = Math.max(...stretch);
        const least = Math.min(...stretch);
        expect(index.highestIn(from, to)).toEqual({entry: from + stretch.indexOf(most), total: most});
        expect(index.lowestIn(from, to)).toEqual({entry: from + stretch.indexOf(least), total: least});
      }
    }
  });

  it('knows which row an entry starts and which it ends', () => {
    const lifetimes = cases[6];
    const index = new TimelineIndex(lifetimes);
    for (let row = 0; row < lifetimes.rows; row++) {
      if (row >= lifetimes.before) expect(index.rowStartedBy(lifetimes.start[row])).toBe(row);
      if (lifetimes.end[row] < lifetimes.entries) expect(index.rowEndedBy(lifetimes.end[row])).toBe(row);
    }
  });

  it('keeps its live lists within their share of memory', () => {
    const lifetimes = {...madeUp(3, 200_000, 4000), unitBytes: 512};
    const index = new TimelineIndex(lifetimes);
    expect(index.bytes).toBeLessThan(24_000_000);
    expect(index.liveMax).toBeGreaterThan(2000);
  });

  it('is small where little happens, however long the recording is', () => {
    const index = new TimelineIndex(rarer(madeUp(4, 1000), 2000));
    expect(index.bytes).toBeLessThan(200_000);
  });
});
