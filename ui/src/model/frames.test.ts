import {describe, expect, it} from 'vitest';
import cases from '../../../testdata/frames.json';
import {frameLabel, fullFrame, shortFrame} from './frames';

describe('frames', () => {
  it('are said in the words of the program', () => {
    for (const [file, line, name, words] of cases.frames) {
      const frame = {file: String(file), line: Number(line), name: String(name)};
      expect(shortFrame(frame)).toBe(words);
    }
    expect(fullFrame({file: '/a/train.py', line: 12, name: 'step'})).toBe('/a/train.py:12 step');
  });

  it('begin with the name where the end may be cut', () => {
    expect(frameLabel({file: '/a/train.py', line: 12, name: 'step'})).toBe('step (train.py:12)');
    expect(frameLabel({file: '??', line: 0, name: 'at::empty'})).toBe('at::empty');
  });
});
