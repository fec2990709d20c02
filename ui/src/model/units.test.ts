import {describe, expect, it} from 'vitest';
import cases from '../../../testdata/units.json';
import {parseBytes} from './units';

describe('sizes as people write them', () => {
  it('are the same bytes as in the program', () => {
    for (const [text, bytes] of [...cases.sizes, ...cases.bare])
      expect(parseBytes(String(text)), `${text}`).toBe(bytes);
  });

  it('are refused with what is expected', () => {
    for (const [text] of cases.refused) expect(() => parseBytes(String(text)), `${text}`).toThrow('is not a size');
  });
});
