/** Made-up lifetimes for tests: seeded, so that a failure can be had again. */

import type {Lifetimes} from '../model/lifetimes';

/** A generator of numbers from 0 up to 1 (mulberry32). */
export function random(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

/**
 * Lifetimes as a recording would give them: `entries` entries, each an alloc, the free of something live, or neither;
 * some rows began before.
 */
export function madeUp(seed: number, entries: number, liveWanted = 20, before = 3): Lifetimes {
  const next = random(seed);
  const start: number[] = [];
  const end: number[] = [];
  const size: number[] = [];
  const live: number[] = [];
  for (let row = 0; row < before; row++) {
    live.push(start.length);
    start.push(0);
    end.push(entries);
    size.push(1 + Math.floor(next() * 50));
  }
  for (let entry = 0; entry < entries; entry++) {
    const luck = next();
    if (luck < 0.1) continue;
    if (live.length > 0 && next() < live.length / (2 * liveWanted)) {
      const at = Math.floor(next() * live.length);
      end[live[at]] = entry;
      live.splice(at, 1);
    } else {
      live.push(start.length);
      start.push(entry);
      end.push(entries);
      size.push(luck > 0.95 ? 1 + Math.floor(next() * 10_000) : 1 + Math.floor(next() * 64));
    }
  }
  return {
    rows: start.length,
    entries,
    before,
    unitBytes: 512,
    start: Uint32Array.from(start),
    end: Uint32Array.from(end),
    size: Uint32Array.from(size),
  };
}

/** The total after an entry, in units, by looking at every row. */
export function naiveTotal(lifetimes: Lifetimes, entry: number): number {
  let total = 0;
  for (const row of naiveLive(lifetimes, entry)) total += lifetimes.size[row];
  return total;
}

/** The rows that are active after an entry, by looking at every row. */
export function naiveLive({rows, start, end}: Lifetimes, entry: number): number[] {
  return Array.from({length: rows}, (_, row) => row).filter(row => start[row] <= entry && entry < end[row]);
}
