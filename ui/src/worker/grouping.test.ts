import {describe, expect, it} from 'vitest';
import {faded} from '../draw/paint';
import {type Colouring, emphasised, withFrame} from './grouping';

const WHITE = 0xffffffff;
const COLOURS = [0xff0000aa, 0xff00aa00, 0xffaa0000];

/** Three groups `a`, `b` and `c`, with four keys. */
const colouring: Colouring = {
  groups: {
    by: 'pool',
    key: Uint8Array.of(0, 1, 2, 3),
    ofKey: Uint8Array.of(0, 1, 1, 2),
    count: 3,
    label: group => 'abc'[group],
  },
  colours: Uint32Array.from(COLOURS),
  rows: {key: Uint8Array.of(0, 1, 2, 3), lut: Uint32Array.from([0, 1, 1, 2], group => COLOURS[group])},
  keyOf: group => 'abc'[group],
};

function shown(only: string | null, hidden: string[] = []): string {
  const {lut} = emphasised(colouring, {only, hidden}, WHITE);
  return [0, 1, 1, 2]
    .map((group, key) => {
      if (lut[key] === COLOURS[group]) return 'abc'[group];
      expect(lut[key]).toBe(faded(COLOURS[group], WHITE) >>> 0);
      return '-';
    })
    .join('');
}

describe('what the legend emphasises', () => {
  it('has its colour, and the rest fades', () => {
    expect(shown(null)).toBe('abbc');
    expect(shown('b')).toBe('-bb-');
    expect(shown(null, ['b'])).toBe('a--c');
    expect(shown('a', ['a'])).toBe('----');
  });

  it('is nothing where no group is known by that name: it is of another file', () => {
    expect(shown('gone', ['c', 'gone'])).toBe('abb-');
  });
});

describe('a stack in the legend', () => {
  const frame = (file: string, line: number, name: string) => ({file, line, name, owner: 'user' as const});
  const words = (...frames: ReturnType<typeof frame>[]) =>
    withFrame({framesOf: () => frames}, 0, 'capture.py:362 step');

  it('is told apart by the frame further in, or by its caller', () => {
    const site = frame('/a/capture.py', 362, 'step');
    expect(words(frame('/t/adam.py', 178, '_init_group'), site)).toBe(
      'adam.py:178 _init_group, from capture.py:362 step',
    );
    expect(words(frame('at.cpp', 1, 'empty'), site, frame('/a/train.py', 12, 'main'))).toBe(
      'capture.py:362 step, from train.py:12 main',
    );
    expect(words(site)).toBe('capture.py:362 step');
    expect(words()).toBe('capture.py:362 step');
  });
});
