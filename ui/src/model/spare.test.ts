import {expect, it} from 'vitest';
import {Spare} from './spare';

it('gives memory again once it came back, and to one at a time', () => {
  const spare = new Spare();
  const first = spare.u32(100);
  const second = spare.u32(100);
  expect(second.buffer).not.toBe(first.buffer);
  spare.give(first);
  const third = spare.f64(50);
  expect(third.buffer).toBe(first.buffer);
  expect(third.length).toBe(50);
  expect(spare.f64(50).buffer).not.toBe(first.buffer);
});

it('keeps the larger of two, and makes more where that is too small', () => {
  const spare = new Spare();
  const [small, large] = [spare.u32(10), spare.u32(1000)];
  spare.give(large);
  spare.give(small);
  const larger = spare.u32(2000);
  expect(larger.length).toBe(2000);
  expect(spare.u32(1000).buffer).toBe(large.buffer);
});
