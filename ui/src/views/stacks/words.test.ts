import {describe, expect, it} from 'vitest';
import type {KeyWords} from '../../worker/flame';
import {amountOf, matcherOf, subjectOf, Words} from './words';

const KEYS: KeyWords = {
  key: Uint32Array.of(4, 7, 9),
  name: ['forward', '(no stack recorded)', 'a\u202eb\nc'],
  file: ['/site-packages/transformers/Model.py', '', 'x.py'],
  line: Uint32Array.of(12, 0, 3),
  owner: ['user', undefined, 'user'],
};

describe('the words of boxes', () => {
  const words = new Words(KEYS);

  it('are name and place of a frame, and a label as it is', () => {
    expect(words.of(4)?.label).toBe('forward (Model.py:12)');
    expect(words.of(7)?.label).toBe('(no stack recorded)');
    expect(words.of(5)).toBeUndefined();
  });

  it('hold no sign that turns or breaks a line', () => {
    expect(words.of(9)?.label).toBe('a\ufffdb\ufffdc (x.py:3)');
  });

  it('say whose code it is', () => {
    expect([4, 7, 9].map(key => words.of(key)?.kind)).toEqual(['library', 'none', 'own']);
  });
});

describe('what a search is about', () => {
  it('are the frames and labels that it found', () => {
    const found = matcherOf({count: 1, bytes: 1, sites: Uint8Array.of(0, 0, 1)})!;
    expect([0, 1, 2, 3].filter(found)).toEqual([2]);
  });

  it('is nothing where the search is of sizes, or not understood', () => {
    expect(matcherOf({count: 1, bytes: 1})).toBeUndefined();
    expect(matcherOf(undefined)).toBeUndefined();
  });
});

describe('what was weighed', () => {
  it('is told with its unit', () => {
    expect(amountOf(1536, 'bytes')).toBe('1.50 KiB');
    expect(amountOf(1536.4, 'byte-seconds')).toBe('1.50 KiB·s');
    expect(amountOf(3, 'byte-entries')).toBe('3 B·entries');
  });

  it('is told with its entries, the last one included', () => {
    const weighed = {unit: 'bytes' as const, stretch: {from: 10, to: 20}, entry: 12};
    expect(subjectOf(weighed, 'allocated', 5)).toBe('allocated in entries 10 to 19');
    expect(subjectOf(weighed, 'live', 12)).toBe('active at the peak, after entry 12');
    expect(subjectOf(weighed, 'live', 5)).toBe('active after entry 12');
  });
});
