import {describe, expect, it} from 'vitest';
import {Newest} from './newest';

describe('the newest call', () => {
  it('is the last that began, whichever is answered first', () => {
    const calls = new Newest();
    const first = calls.begin();
    expect(first()).toBe(true);
    const second = calls.begin();
    expect([first(), second()]).toEqual([false, true]);
  });
});
