import {describe, expect, it, vi} from 'vitest';
import {Problem} from '../../data/source';
import {Asking, memoryParameter} from './asking';
import type {Simulation} from './simulation';

/** An answer that comes when the test says so, and how its question ended. */
function later() {
  let resolve: (value: Simulation) => void = () => {};
  let reject: (error: unknown) => void = () => {};
  const promise = new Promise<Simulation>((yes, no) => {
    resolve = yes;
    reject = no;
  });
  let signal: AbortSignal | undefined;
  const make = (given: AbortSignal) => {
    signal = given;
    return promise;
  };
  return {make, resolve, reject, wasCancelled: () => signal?.aborted};
}

const answerOf = (device: number) => ({device}) as Simulation;

describe('the memory of a question', () => {
  it('is a limit with its unit, and else a GPU', () => {
    for (const limit of ['24GiB', '512 MiB', '1.5g', '1,024 KiB', '100B'])
      expect(memoryParameter(limit), limit).toBe('capacity');
    // A bare number may be a name: `4090`.
    for (const card of ['RTX 4090', '4090', 'a100-80gb', 'T4', 'nonsense'])
      expect(memoryParameter(card), card).toBe('card');
  });
});

describe('a question to the simulator', () => {
  it('is cancelled by the next one, and its answer does not count', async () => {
    const asking = new Asking();
    const [first, second] = [later(), later()];
    const firstDone = asking.ask(first.make);
    const secondDone = asking.ask(second.make);
    expect(first.wasCancelled()).toBe(true);
    expect(second.wasCancelled()).toBe(false);
    second.resolve(answerOf(2));
    await secondDone;
    first.resolve(answerOf(1));
    await firstDone;
    expect(asking.answer.value).toEqual({value: answerOf(2), problem: null, isBusy: false});
  });

  it('keeps the last answer while the next is made, and after it is cancelled', async () => {
    const asking = new Asking();
    await asking.ask(() => Promise.resolve(answerOf(1)));
    const next = later();
    const done = asking.ask(next.make);
    expect(asking.answer.value).toEqual({value: answerOf(1), problem: null, isBusy: true});
    asking.cancel();
    next.reject(new DOMException('aborted', 'AbortError'));
    await done;
    expect(asking.answer.value).toEqual({value: answerOf(1), problem: null, isBusy: false});
  });

  it('shows what the program says is wrong', async () => {
    const asking = new Asking();
    await asking.ask(() => Promise.reject(new Problem({error: 'refused', hint: 'write it so'})));
    expect(asking.answer.value.problem?.message).toBe('refused');
    expect(asking.answer.value.problem?.hint).toBe('write it so');
    expect(asking.answer.value.isBusy).toBe(false);
  });
});

describe('the progress of a question', () => {
  it('is looked at until the answer is there, and no longer', async () => {
    vi.useFakeTimers();
    const asking = new Asking();
    const answer = later();
    let looks = 0;
    const progress = {stage: 'waiting', entries: 1, recorded_entries: 0, settings_done: 0, settings: []} as const;
    const done = asking.ask(answer.make, () => Promise.resolve({...progress, settings: [], recorded_entries: ++looks}));
    expect(asking.progress.value).toBeNull();
    await vi.advanceTimersByTimeAsync(600);
    expect(asking.progress.value?.recorded_entries).toBe(2);
    answer.resolve(answerOf(1));
    await done;
    await vi.advanceTimersByTimeAsync(2000);
    expect(looks).toBe(2);
    vi.useRealTimers();
  });

  it('ends with a question that is cancelled', async () => {
    vi.useFakeTimers();
    const asking = new Asking();
    const answer = later();
    let looks = 0;
    void asking.ask(answer.make, () => {
      looks++;
      return Promise.reject(new Problem({error: 'gone'}));
    });
    await vi.advanceTimersByTimeAsync(300);
    asking.cancel();
    expect(answer.wasCancelled()).toBe(true);
    await vi.advanceTimersByTimeAsync(2000);
    expect(looks).toBe(1);
    vi.useRealTimers();
  });
});
