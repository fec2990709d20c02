import {describe, expect, it} from 'vitest';
import {changeWords} from './flame';

const GIB = 2 ** 30;

describe('a change in words', () => {
  it('has its part where that can be read', () => {
    expect(changeWords([10 * GIB, 12 * GIB])).toBe('+2.00 GiB (+20 %)');
    expect(changeWords([12 * GIB, 9 * GIB])).toBe('−3.00 GiB (−25 %)');
    expect(changeWords([GIB, 723 * GIB])).toBe('+722 GiB (×723)');
    expect(changeWords([0, GIB])).toBe('+1.00 GiB (new)');
    expect(changeWords([GIB, 0])).toBe('−1.00 GiB (gone)');
    expect(changeWords([GIB, GIB])).toBe('the same');
  });
});
