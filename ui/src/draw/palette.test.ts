import {describe, expect, it} from 'vitest';
import {CATEGORIES} from '../calculator/document';
import {hashOf} from '../model/hash';
import {stacksOf} from '../testing/stacks';
import {BACKGROUND, categoryColour, colourOfHash, hexOf, sizeColour, slotsOfLargest} from './palette';

/** Contrast as WCAG has it: 1 is none, 21 is black on white. */
function contrast(one: string, other: string): number {
  const light = (hex: string) => {
    const parts = [1, 3, 5].map(at => Number.parseInt(hex.slice(at, at + 2), 16) / 255);
    const [red, green, blue] = parts.map(part => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  const [high, low] = [light(one), light(other)].sort((a, b) => b - a);
  return (high + 0.05) / (low + 0.05);
}

/** A pixel's lightness and its two opponents: distances are what is seen (https://bottosson.github.io/posts/oklab/). */
function oklabOf(pixel: number): number[] {
  const linear = [pixel, pixel >>> 8, pixel >>> 16].map(byte => {
    const part = (byte & 0xff) / 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  });
  const mix = (weights: number[][], from: number[]) =>
    weights.map(row => row.reduce((sum, weight, i) => sum + weight * from[i], 0));
  const cones = mix(
    [
      [0.4122214708, 0.5363325363, 0.0514459929],
      [0.2119034982, 0.6806995451, 0.1073969566],
      [0.0883024619, 0.2817188376, 0.6299787005],
    ],
    linear,
  ).map(Math.cbrt);
  return mix(
    [
      [0.2104542553, 0.793617785, -0.0040720468],
      [1.9779984951, -2.428592205, 0.4505937099],
      [0.0259040371, 0.7827717662, -0.808675766],
    ],
    cones,
  );
}

describe('colours', () => {
  it('of categories differ from each other', () => {
    const all = [...CATEGORIES, 'unknown'].map(categoryColour);
    expect(new Set(all).size).toBe(all.length);
  });

  it('of a call site are the same in every file', () => {
    expect(hexOf(colourOfHash(hashOf('model.py:12 forward')))).toBe('#b1b76b');
  });

  it('of the largest call sites are told apart, and are the same where the same are the largest', () => {
    for (let file = 0; file < 50; file++) {
      const hashes = Array.from({length: 14}, (_, line) => hashOf(`model${file}.py:${line} forward`));
      const slots = slotsOfLargest(hashes);
      const colours = hashes.map(hash => oklabOf(colourOfHash(hash, slots.get(hash))));
      const nearest = colours.flatMap((one, i) =>
        colours.slice(i + 1).map(other => Math.hypot(...one.map((part, k) => part - other[k]))),
      );
      expect(Math.min(...nearest)).toBeGreaterThan(0.02);
      expect(slotsOfLargest(hashes.toReversed())).toEqual(slots);
    }
  });

  it('of call sites are many, and are seen on light and on dark', () => {
    const colours = Array.from({length: 1000}, (_, line) => hexOf(colourOfHash(hashOf(`model.py:${line} forward`))));
    expect(new Set(colours).size).toBeGreaterThan(700);
    for (const colour of colours) {
      expect(contrast(colour, BACKGROUND.light), colour).toBeGreaterThan(1.7);
      expect(contrast(colour, BACKGROUND.dark), colour).toBeGreaterThan(3);
    }
  });

  it('of a stack depend on its frames alone, not on their place in the file', () => {
    const one = stacksOf([[0, 1], [0, 2], []], [0, 0, 0]).stackHashes();
    const other = stacksOf([[], [1], [0, 2], [0, 1]], [0, 0, 0]).stackHashes();
    expect([one[0], one[1], one[2]]).toEqual([other[3], other[2], other[0]]);
    expect(new Set(other).size).toBe(4);
  });

  it('of sizes grow stronger', () => {
    const strengths = [0, 5, 10].map(group => contrast(hexOf(sizeColour(group, 11)), BACKGROUND.light));
    expect(strengths).toEqual(strengths.toSorted((a, b) => a - b));
  });
});
