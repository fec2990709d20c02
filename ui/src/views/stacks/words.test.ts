import {describe, expect, it} from 'vitest';
import type {KeyWords} from '../../worker/flame';
import {amountOf, subjectOf, Words} from './words';

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

  it('match a search by name, by file and by place, whatever the case', () => {
    const found = (query: string) => [4, 7, 9].filter(key => words.matcher(query)?.(key));
    expect(found('FORWARD')).toEqual([4]);
    expect(found('"transformers/model.py:12"')).toEqual([4]);
    expect(found('"no stack"')).toEqual([7]);
    expect(found('.py')).toEqual([4, 9]);
  });

  it('match nothing where the search is of sizes, or not understood', () => {
    expect(words.matcher('size>1MiB')).toBeUndefined();
    expect(words.matcher('size:much')).toBeUndefined();
    expect(words.matcher('')).toBeUndefined();
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
