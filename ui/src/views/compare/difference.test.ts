import {describe, expect, it} from 'vitest';
import {changeColour, changeShare, differenceOf} from './difference';

describe('the difference of two trees of stacks', () => {
  const difference = differenceOf({
    bytes: [100, 130],
    nodes: [
      {parent: null, text: 'main', bytes: [100, 130]},
      {parent: 0, text: 'grew', bytes: [30, 80]},
      {parent: 0, text: 'went', bytes: [60, 0]},
      {parent: 0, text: 'stayed', bytes: [10, 50]},
      {parent: 3, text: 'inner', bytes: [10, 10]},
    ],
  });
  const {layout, text, bytes} = difference;
  const widths = Object.fromEntries(Array.from(layout.key, (key, box) => [text[key], layout.total[box]]));

  it('is as wide as the larger side, so that nothing that went is left out', () => {
    expect(widths.grew).toBe(80);
    expect(widths.went).toBe(60);
    expect(widths.stayed).toBe(50);
    expect(widths.inner).toBe(10);
  });

  it('has every box as wide as what lies on it', () => {
    expect(widths.main).toBe(190);
    expect(widths.all).toBe(190);
    for (let box = 1; box < layout.parent.length; box++) {
      const below = layout.parent[box];
      expect(layout.left[box]).toBeGreaterThanOrEqual(layout.left[below]);
      expect(layout.left[box] + layout.total[box]).toBeLessThanOrEqual(layout.left[below] + layout.total[below]);
    }
  });

  it('says the bytes of both files, not its widths', () => {
    expect(bytes[0]).toEqual([100, 130]);
    expect(bytes[text.indexOf('went')]).toEqual([60, 0]);
  });

  it('is red for more and blue for less, grey for the same', () => {
    expect(
      [
        [0, 5],
        [5, 0],
        [5, 5],
        [0, 0],
        [100, 50],
      ].map(pair => changeShare(pair as [number, number])),
    ).toEqual([1, -1, 0, 0, -0.5]);
    expect(changeColour(1, 'light')).toMatch(/^hsl\(8 /);
    expect(changeColour(-0.5, 'dark')).toMatch(/^hsl\(215 /);
    expect(changeColour(0, 'dark')).toMatch(/ 0% /);
  });

  it('is one empty box where nothing is held', () => {
    expect(differenceOf({bytes: [0, 0], nodes: []}).layout.parent.length).toBe(1);
  });
});
