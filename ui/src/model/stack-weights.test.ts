import {describe, expect, it} from 'vitest';
import {madeUp, naiveLive, random} from '../testing/lifetimes';
import type {Lifetimes} from './lifetimes';
import {allocatedIn, lifetimesIn, weightsOf} from './stack-weights';

const STACKS = 7;

function made(seed: number) {
  const lifetimes = madeUp(seed, 400, 15);
  const next = random(seed + 100);
  const stack = Uint32Array.from({length: lifetimes.rows}, () => Math.floor(next() * STACKS));
  const from = Math.floor(next() * 399);
  const to = from + 1 + Math.floor(next() * (400 - from));
  const times = Float64Array.from({length: 400}, (_, i) => i * 10 + (i > 200 ? 5000 : 0));
  return {lifetimes, stack, from, to, times};
}

/** Sums by stack, entry by entry. */
function naive({size}: Lifetimes, stack: Uint32Array, rows: number[], by: (row: number) => number): number[] {
  const sums = Array(STACKS).fill(0);
  for (const row of rows) sums[stack[row]] += size[row] * by(row);
  return sums;
}

const SEEDS = Array.from({length: 30}, (_, i) => i + 1);

describe('the weights of stacks', () => {
  it.each(SEEDS)('of what a stretch allocated are the rows that start in it (seed %i)', seed => {
    const {lifetimes, stack, from, to} = made(seed);
    const {start, end, before, rows} = lifetimes;
    const all = Array.from({length: rows}, (_, row) => row);
    const inside = all.filter(row => row >= before && start[row] >= from && start[row] < to);
    const kept = inside.filter(row => end[row] > to - 1);
    const fast = allocatedIn(lifetimes, STACKS, stack, {from, to}, false);
    expect(Array.from(fast.weight)).toEqual(naive(lifetimes, stack, inside, () => 1));
    expect(fast.count.reduce((a, b) => a + b)).toBe(inside.length);
    const fastKept = allocatedIn(lifetimes, STACKS, stack, {from, to}, true);
    expect(Array.from(fastKept.weight)).toEqual(naive(lifetimes, stack, kept, () => 1));
  });

  it.each(SEEDS)('of bytes over lifetimes are the sum of what is active after each entry (seed %i)', seed => {
    const {lifetimes, stack, from, to, times} = made(seed);
    const sums = Array(STACKS).fill(0);
    const timed = Array(STACKS).fill(0);
    for (let entry = from; entry < to; entry++) {
      const width = times[Math.min(entry + 1, 399)] - times[entry];
      for (const row of naiveLive(lifetimes, entry)) {
        sums[stack[row]] += lifetimes.size[row];
        timed[stack[row]] += lifetimes.size[row] * width;
      }
    }
    expect(Array.from(lifetimesIn(lifetimes, STACKS, stack, {from, to}).weight)).toEqual(sums);
    expect(Array.from(lifetimesIn(lifetimes, STACKS, stack, {from, to}, times).weight)).toEqual(timed);
  });

  it('of a moment are those of the rows that are told', () => {
    const {lifetimes, stack} = made(9);
    const live = naiveLive(lifetimes, 250);
    const weights = weightsOf(STACKS, stack, lifetimes.size, see => live.forEach(see));
    expect(Array.from(weights.weight)).toEqual(naive(lifetimes, stack, live, () => 1));
  });
});
