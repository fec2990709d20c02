import {expect, it} from 'vitest';
import {capitalised, partsOfProse, piecesOfCode, piecesOfWords} from './prose';

it('breaks code between its names', () => {
  const pieces = piecesOfCode('torch.cuda.set_per_process_memory_fraction(1.0)');
  expect(pieces).toEqual(['torch.', 'cuda.', 'set_', 'per_', 'process_', 'memory_', 'fraction(', '1.', '0)']);
  expect(piecesOfCode('expandable_segments:True')).toEqual(['expandable_', 'segments:', 'True']);
  for (const text of ['', 'a b', '__init__', '...', 'x = f()']) expect(piecesOfCode(text).join('')).toBe(text);
});

it('keeps a number and its unit together', () => {
  expect(piecesOfWords('3.00 GiB (38 %) of 1,024 B')).toEqual(['', '3.00 GiB', ' (', '38 %', ') of ', '1,024 B', '']);
  for (const text of ['', 'batch 4 Blocks', 'at entry 590 since']) expect(piecesOfWords(text)).toEqual([text]);
});

it('keeps code and the bracket or punctuation beside it together', () => {
  expect(partsOfProse('a (`b`), `c` and `d`.')).toEqual([
    {words: 'a ', before: '(', code: 'b', after: '),'},
    {words: ' ', before: '', code: 'c', after: ''},
    {words: ' and ', before: '', code: 'd', after: '.'},
    {words: ''},
  ]);
  for (const text of ['', 'a', '`a`', '`a`(`b`)', '`a` `b', 'x: `y`.`z`']) {
    const parts = partsOfProse(text).flatMap(({words, before = '', code, after = ''}) => [
      words,
      before,
      code ?? '',
      after,
    ]);
    expect(parts.join('')).toBe(text.replaceAll('`', ''));
  }
});

it('begins a sentence with a capital letter, unless it is a name that has none', () => {
  expect(['memory grows', 'cuBLAS holds 130.00 MiB', '', '`x` is'].map(capitalised)).toEqual([
    'Memory grows',
    'cuBLAS holds 130.00 MiB',
    '',
    '`x` is',
  ]);
});
