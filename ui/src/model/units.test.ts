import {describe, expect, it} from 'vitest';
import cases from '../../../testdata/units.json';
import {byteLabels, byteTicks, parseBytes} from './units';

const MIB = 2 ** 20;
const GIB = 2 ** 30;

describe('labels of the axis of bytes', () => {
  it('are short where the whole is shown', () => {
    expect(byteLabels([0, 512 * MIB, GIB, 1.5 * GIB])).toEqual(['0 B', '512 MiB', '1 GiB', '1.5 GiB']);
    expect(byteLabels([GIB, 1.125 * GIB, 1.25 * GIB])).toEqual(['1 GiB', '1.125 GiB', '1.250 GiB']);
  });

  it('have the digits that the step needs, and count from the lowest where these are many', () => {
    expect(byteLabels([1.5 * GIB, 1.5 * GIB + 16 * MIB, 1.5 * GIB + 32 * MIB])).toEqual([
      '1.50 GiB',
      '1.52 GiB',
      '1.53 GiB',
    ]);
    expect(byteLabels([1.5625 * GIB, 1.5625 * GIB + MIB, 1.5625 * GIB + 2 * MIB])).toEqual([
      '1.5625 GiB',
      '+1 MiB',
      '+2 MiB',
    ]);
    expect(byteLabels([79 * GIB, 79 * GIB + 512, 79 * GIB + 1024])).toEqual(['79 GiB', '+512 B', '+1 KiB']);
  });

  it('differ from each other at every zoom', () => {
    for (let low = 0; low < 300 * GIB; low = low * 3 + 12_345_678)
      for (let span = 4; span < 400 * GIB; span *= 1.7)
        for (const wanted of [2, 5, 11, 45]) {
          const labels = byteLabels(byteTicks(low, low + span, wanted));
          expect(new Set(labels).size, `${low} + ${span}: ${labels}`).toBe(labels.length);
          for (const label of labels) expect(label.length, label).toBeLessThanOrEqual(11);
        }
  });
});

describe('sizes as people write them', () => {
  it('are the same bytes as in the program', () => {
    for (const [text, bytes] of [...cases.sizes, ...cases.bare])
      expect(parseBytes(String(text)), `${text}`).toBe(bytes);
  });

  it('are refused with what is expected', () => {
    for (const [text] of cases.refused) expect(() => parseBytes(String(text)), `${text}`).toThrow('is not a size');
  });
});
