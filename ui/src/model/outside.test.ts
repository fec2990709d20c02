import {describe, expect, it} from 'vitest';
import {blocksAfter, cardPeak, type Outside, OutsideCursor, outsideAfter} from './outside';

/** A context of 500 from the start; a library with 40 from entry 10, 90 at 20 alone, none from 30. */
const OUTSIDE: Outside = {
  owners: 2,
  entry: Uint32Array.of(0, 10, 20, 21, 30),
  owner: Uint8Array.of(0, 1, 1, 1, 1),
  bytes: Float64Array.of(500, 40, 90, 40, 0),
  blocks: {
    address: Float64Array.of(1, 2),
    bytes: Float64Array.of(40, 50),
    owner: Uint8Array.of(1, 1),
    start: Uint32Array.of(10, 20),
    end: Uint32Array.of(30, 21),
    site: Uint8Array.of(0, 0),
  },
};

describe('memory outside PyTorch', () => {
  it('is what the last step says', () => {
    expect([0, 9, 10, 20, 29, 30].map(entry => outsideAfter(OUTSIDE, entry).join())).toEqual([
      '500,0',
      '500,0',
      '500,40',
      '500,90',
      '500,40',
      '500,0',
    ]);
    expect([9, 10, 20, 21, 30].map(entry => blocksAfter(OUTSIDE.blocks, entry))).toEqual([[], [0], [0, 1], [0], []]);
  });

  it('is never lower in a stretch than after any of its entries, whatever the stretches', () => {
    for (const width of [1, 3, 7, 15, 40]) {
      const cursor = new OutsideCursor(OUTSIDE);
      for (let from = 0; from < 40; from += width) {
        cursor.look(from, from + width);
        const sums = Array.from({length: width}, (_, i) => outsideAfter(OUTSIDE, from + i).reduce((a, b) => a + b));
        expect(cursor.highestBytes).toBe(Math.max(...sums));
        expect(cursor.highest.reduce((a, b) => a + b)).toBe(cursor.highestBytes);
      }
    }
    // Columns that show the same entry.
    const cursor = new OutsideCursor(OUTSIDE);
    for (const entry of [20, 20, 20, 21]) {
      cursor.look(entry, entry + 1);
      expect(cursor.highestBytes).toBe(entry === 20 ? 590 : 540);
    }
  });

  it('is highest on the card where both are', () => {
    const reserved = (from: number, to: number) =>
      from <= 5 && 5 < to ? {entry: 5, bytes: 100} : {entry: from, bytes: 10};
    expect(cardPeak(OUTSIDE, 40, reserved)).toEqual({entry: 5, bytes: 600});
    expect(cardPeak(OUTSIDE, 40, from => ({entry: from, bytes: 10}))).toEqual({entry: 20, bytes: 600});
  });
});
