import {expect, it} from 'vitest';
import {categoryWords, isCategoryFound} from './categories';

it('a category is found by the words that are shown, and as the file has it', () => {
  for (const text of [categoryWords('optimizer_state'), 'optimizer_state', 'Optimizer', 'state'])
    expect(isCategoryFound('optimizer_state', text), text).toBe(true);
  expect(isCategoryFound('optimizer_state', 'gradient')).toBe(false);
});
