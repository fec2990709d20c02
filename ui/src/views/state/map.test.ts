import {describe, expect, it} from 'vitest';
import {loggingPen} from '../../testing/pen';
import {wordsThatFit} from './map';

const HEADING = {
  y: 0,
  group: 0,
  label: 'default pool, large blocks, stream 0',
  segments: 2,
  mappedBytes: 2 ** 31,
  usedBytes: 2 ** 30,
  isOutside: false,
};

describe('the words of a heading', () => {
  it('are those that fit, and never without their bytes', () => {
    const pen = loggingPen();
    // Letters are six pixels wide.
    const at = (letters: number) => wordsThatFit(pen, HEADING, true, 6 * letters);
    expect(at(80)).toBe('default pool, large blocks, stream 0: 2 segments, 1.00 GiB of 2.00 GiB in use');
    expect(at(58)).toBe('default pool, large blocks, stream 0: 1.00 GiB of 2.00 GiB');
    expect(at(50)).toBe('default, large, stream 0: 1.00 GiB of 2.00 GiB');
    expect(at(40)).toMatch(/^default, .*…: 1\.00 GiB of 2\.00 GiB$/);
  });
});
