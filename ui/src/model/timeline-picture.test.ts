import {describe, expect, it} from 'vitest';
import {madeUp, naiveLive, naiveTotal, random} from '../testing/lifetimes';
import {entryAxis, timeAxis} from './axis';
import {BandList, fillColumn, ID_IDLE, ID_MASK, ID_SHARED} from './column-ids';
import type {Lifetimes} from './lifetimes';
import {TimelineIndex} from './timeline-index';
import {drawTimeline} from './timeline-picture';

/** The id of each pixel of a column, by looking at every row that is active: what covers most of it, first of equals. */
function naiveColumn(
  lifetimes: Lifetimes,
  entry: number,
  height: number,
  lowUnits: number,
  perPixel: number,
): number[] {
  const bands: {row: number; from: number; to: number}[] = [];
  let at = 0;
  for (const row of naiveLive(lifetimes, entry)) {
    bands.push({row, from: at, to: at + lifetimes.size[row]});
    at += lifetimes.size[row];
  }
  return Array.from({length: height}, (_, pixel) => {
    const low = lowUnits + pixel * perPixel;
    const covers = bands
      .map(({row, from, to}) => ({row, by: Math.min(to, low + perPixel) - Math.max(from, low)}))
      .filter(({by}) => by > 1e-9);
    const most = covers.reduce((best, one) => (one.by > best.by + 1e-9 ? one : best), {row: -1, by: 0});
    return most.row + 1;
  });
}

function bandsOf(lifetimes: Lifetimes, rows: Uint32Array): BandList {
  const bands = new BandList();
  for (const row of rows) bands.push(row + 1, lifetimes.size[row]);
  return bands;
}

describe('a column of the timeline', () => {
  it('shows in each pixel the allocation that covers most of it', () => {
    const next = random(5);
    for (let seed = 1; seed < 30; seed++) {
      const lifetimes = madeUp(seed, 300, 10);
      const index = new TimelineIndex(lifetimes);
      const entry = Math.floor(next() * 300);
      const total = naiveTotal(lifetimes, entry);
      // Powers of two, so that edges are where the naive way has them too.
      const perPixel = 2 ** Math.floor(next() * 6 - 1);
      const low = next() < 0.5 ? 0 : Math.floor(next() * total);
      const out = new Uint32Array(64);
      fillColumn(bandsOf(lifetimes, index.liveAt(entry)), out, 0, 64, {low, perPixel});
      const rows = Array.from(out, id => id & ID_MASK);
      expect(rows).toEqual(naiveColumn(lifetimes, entry, 64, low, perPixel));
    }
  });

  it('says that a pixel is shared exactly where several cover it', () => {
    const bands = new BandList();
    for (const [row, units] of [4, 1, 3].entries()) bands.push(row + 1, units);
    const out = new Uint32Array(5);
    fillColumn(bands, out, 0, 5, {low: 0, perPixel: 2});
    expect(Array.from(out)).toEqual([1, 1, (2 | ID_SHARED) >>> 0, 3, 0]);
  });
});

describe('the picture of the timeline', () => {
  const lifetimes = madeUp(7, 3000, 40);
  const index = new TimelineIndex(lifetimes);
  const totals = Array.from({length: 3000}, (_, entry) => naiveTotal(lifetimes, entry));
  const peak = Math.max(...totals);

  it('has the total of the analysis as its area, at every zoom', () => {
    for (const [from, to] of [
      [0, 3000],
      [100, 900],
      [1000, 1100],
      [2000, 2010],
      [2990, 3000],
    ]) {
      const picture = drawTimeline(index, entryAxis(3000), {
        width: 100,
        height: 50,
        x: {from, to},
        lowBytes: 0,
        highBytes: peak * 512,
      });
      for (let column = 0; column < 100; column++) {
        const first = Math.floor(from + (column * (to - from)) / 100);
        const last = Math.max(first + 1, Math.floor(from + ((column + 1) * (to - from)) / 100));
        const covered = totals.slice(first, last);
        expect(picture.highBytes[column]).toBe(Math.max(...covered) * 512);
        expect(picture.lowBytes[column]).toBe(Math.min(...covered) * 512);
        expect(totals[picture.entries[column]] * 512).toBe(picture.highBytes[column]);
        // The pixels that show something are the total's, to the pixel.
        const filled = picture.ids.subarray(column * 50, column * 50 + 50).indexOf(0);
        const wanted = Math.ceil((Math.max(...covered) / peak) * 50 - 1e-9);
        expect(filled === -1 ? 50 : filled).toBe(wanted);
      }
    }
  });

  it('always shows the peak', () => {
    const picture = drawTimeline(index, entryAxis(3000), {
      width: 7,
      height: 5,
      x: {from: 0, to: 3000},
      lowBytes: 0,
      highBytes: peak * 512,
    });
    expect(Math.max(...picture.highBytes)).toBe(peak * 512);
  });

  it('shows one allocation of 512 bytes, however long the recording', () => {
    const row = lifetimes.size.findIndex((size, i) => size === 1 && lifetimes.end[i] < 3000 && i > 10);
    const entry = lifetimes.start[row];
    const below = index.below(row, entry);
    const picture = drawTimeline(index, entryAxis(3000), {
      width: 20,
      height: 30,
      x: {from: entry, to: lifetimes.end[row]},
      lowBytes: (below - 1) * 512,
      highBytes: (below + 2) * 512,
    });
    expect(Array.from(picture.ids.subarray(10, 20))).toEqual(Array(10).fill(row + 1));
  });

  it('marks what awaits its free', () => {
    const isPending = new Uint8Array(lifetimes.rows);
    isPending[0] = 1;
    const pending = {isPending, requestedAt: new Map([[0, 10]])};
    const window = {width: 4, height: 1, x: {from: 8, to: 12}, lowBytes: 0, highBytes: 512};
    const picture = drawTimeline(index, entryAxis(3000), window, {pending});
    expect(Array.from(picture.ids)).toEqual([1, 1, 1 | ID_IDLE, 1 | ID_IDLE]);
  });

  it('moves down what lies above a hidden group, and keeps the totals of all', () => {
    const key = Uint8Array.from({length: lifetimes.rows}, (_, row) => row % 3);
    const isHidden = Uint8Array.of(0, 1, 0);
    const window = {width: 60, height: 40, x: {from: 0, to: 3000}, lowBytes: 0, highBytes: peak * 512};
    const whole = drawTimeline(index, entryAxis(3000), window);
    const rest = drawTimeline(index, entryAxis(3000), window, {hidden: {key, isHidden}});
    expect(rest.highBytes).toEqual(whole.highBytes);
    expect(rest.entries).toEqual(whole.entries);
    for (let column = 0; column < 60; column++) {
      const left = index.liveAt(rest.entries[column]).filter(row => row % 3 !== 1);
      const units = left.reduce((sum, row) => sum + lifetimes.size[row], 0);
      const ids = rest.ids.subarray(column * 40, column * 40 + 40);
      const filled = ids.indexOf(0);
      expect(filled === -1 ? 40 : filled).toBe(Math.ceil((units / peak) * 40 - 1e-9));
      expect(ids.every(id => id === 0 || ((id & ID_MASK) - 1) % 3 !== 1)).toBe(true);
    }
  });

  it('over time shows the state before a gap throughout the gap', () => {
    const times = Float64Array.from({length: 3000}, (_, entry) => entry * 10 + (entry >= 1500 ? 50_000 : 0));
    const axis = timeAxis(times);
    const picture = drawTimeline(index, axis, {
      width: 10,
      height: 10,
      x: {from: 20_000, to: 60_000},
      lowBytes: 0,
      highBytes: peak * 512,
    });
    expect(Array.from(picture.entries)).toEqual(Array(10).fill(1499));
    expect(axis.positionOf(1500)).toBe(65_000);
    expect(axis.entryAt(65_000)).toBe(1500);
  });
});
