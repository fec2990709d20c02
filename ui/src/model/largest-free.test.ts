import {describe, expect, it} from 'vitest';
import {random} from '../testing/lifetimes';
import {largestFree, type Stretches} from './largest-free';

type Stretch = [segment: number, offset: number, units: number];

function stretches(all: readonly Stretch[]): Stretches {
  return {count: all.length, segment: i => all[i][0], offset: i => all[i][1], units: i => all[i][2]};
}

const of = (pieces: readonly Stretch[], blocks: readonly Stretch[]) =>
  largestFree(stretches(pieces), stretches(blocks), length => new Float64Array(length));

/** Unit by unit. */
function naive(pieces: readonly Stretch[], blocks: readonly Stretch[]): number {
  const isMapped = new Set(pieces.flatMap(([s, o, n]) => Array.from({length: n}, (_, i) => `${s} ${o + i}`)));
  for (const [s, o, n] of blocks) for (let i = 0; i < n; i++) isMapped.delete(`${s} ${o + i}`);
  let largest = 0;
  for (let segment = 0; segment < 4; segment++) {
    for (let unit = 0, run = 0; unit < 80; unit++) {
      run = isMapped.has(`${segment} ${unit}`) ? run + 1 : 0;
      largest = Math.max(largest, run);
    }
  }
  return largest;
}

describe('the largest free stretch', () => {
  it('is that of a look at every unit', () => {
    for (let seed = 1; seed <= 200; seed++) {
      const next = random(seed);
      const pieces: Stretch[] = [];
      const blocks: Stretch[] = [];
      for (let segment = 0; segment < 4; segment++) {
        for (let at = 0; at < 60; ) {
          const units = 1 + Math.floor(next() * 12);
          if (next() < 0.7) {
            pieces.push([segment, at, units]);
            if (next() < 0.7) {
              const used = 1 + Math.floor(next() * units);
              blocks.push([segment, at + Math.floor(next() * (units - used + 1)), used]);
            }
          }
          at += units;
        }
      }
      blocks.reverse();
      expect(of(pieces, blocks), `seed ${seed}`).toBe(naive(pieces, blocks));
    }
  });

  it('goes over the edge of touching pieces, and not of segments', () => {
    expect(
      of(
        [
          [0, 0, 10],
          [0, 10, 5],
          [1, 0, 12],
        ],
        [],
      ),
    ).toBe(15);
    expect(
      of(
        [
          [0, 0, 10],
          [0, 10, 5],
        ],
        [[0, 8, 4]],
      ),
    ).toBe(8);
    expect(of([], [])).toBe(0);
  });
});
