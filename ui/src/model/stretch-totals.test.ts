import {describe, expect, it} from 'vitest';
import {madeUp} from '../testing/lifetimes';
import {siteTotalsIn} from './stretch-totals';

describe('the call sites of a stretch', () => {
  it('sum up to what the stretch allocated and freed', () => {
    const lifetimes = madeUp(5, 300, 20, 4);
    const stack = Uint8Array.from({length: lifetimes.rows}, (_, row) => (row * 7) % 5);
    const siteOfStack = Uint8Array.of(2, 0, 2, 1, 3);
    const stretch = {from: 40, to: 150};
    const sites = siteTotalsIn(lifetimes, stack, siteOfStack, 4, stretch);

    const {start, end, size, before, unitBytes, rows} = lifetimes;
    for (const {site, allocatedBytes, allocations, freedBytes, frees} of sites) {
      let [bytes, count, freed, freedCount] = [0, 0, 0, 0];
      for (let row = 0; row < rows; row++) {
        if (siteOfStack[stack[row]] !== site) continue;
        if (row >= before && start[row] >= stretch.from && start[row] < stretch.to) {
          bytes += size[row] * unitBytes;
          count++;
        }
        if (end[row] >= stretch.from && end[row] < stretch.to) {
          freed += size[row] * unitBytes;
          freedCount++;
        }
      }
      expect([allocatedBytes, allocations, freedBytes, frees]).toEqual([bytes, count, freed, freedCount]);
    }
    expect(sites.map(({allocatedBytes}) => allocatedBytes)).toEqual(
      sites.map(({allocatedBytes}) => allocatedBytes).sort((a, b) => b - a),
    );
    expect(sites.length).toBe(4);
  });

  it('are none where nothing happens', () => {
    const lifetimes = madeUp(5, 300, 20, 4);
    const none = new Uint8Array(lifetimes.rows);
    expect(siteTotalsIn(lifetimes, none, Uint8Array.of(0), 1, {from: 100_000, to: 100_001})).toEqual([]);
  });
});
