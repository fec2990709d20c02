import {describe, expect, it} from 'vitest';
import type {FailureExplained, Step} from '../data/generated/explain';
import type {Mark} from '../data/manifest';
import {savingWords} from '../views/summary/steps';
import {failureFacts} from './out-of-memory';
import {verdictWords} from './verdict-bar';

const MIB = 2 ** 20;

describe('the verdict bar', () => {
  const first: Mark = {entry: 590, kind: 'oom', label: 'out of memory: 256.00 MiB requested'};
  const second: Mark = {entry: 1234, kind: 'oom', label: 'out of memory: 2.00 MiB requested'};

  it('has the headline of the first error, and of another one what its mark says', () => {
    expect(verdictWords('Out of memory on device 0', first, first)).toBe('Out of memory on device 0');
    expect(verdictWords('Out of memory on device 0', first, second)).toBe(
      'Out of memory: 2.00 MiB requested at entry 1,234',
    );
    expect(verdictWords('Device 0 peaked at 2 GiB', undefined, undefined)).toBe('Device 0 peaked at 2 GiB');
  });
});

describe('an error in the panel', () => {
  const failure = {
    requested_bytes: 52.5 * MIB,
    tried_bytes: 54 * MIB,
    reserved_bytes: 19.99 * 1024 * MIB,
    diagnosis: {cause: 'limit', also: [], text: '', notes: [], limit: {at_least_bytes: MIB, at_most_bytes: 2 * MIB}},
  } as unknown as FailureExplained;

  it('has the number of PyTorch’s message before the program’s', () => {
    expect(failureFacts(failure)).toEqual([
      ['requested', '54.00 MiB (52.50 MiB by the program)'],
      ['reserved', '19.99 GiB'],
      ['limit', '1.00 MiB to 2.00 MiB'],
    ]);
  });

  it('says of each step what it frees, and whether that is enough', () => {
    const step = (more: Partial<Step>) => savingWords({id: '', title: '', detail: '', ...more});
    expect(step({})).toBeUndefined();
    expect(step({brings_bytes: MIB})).toBe('frees up to 1.00 MiB');
    expect(step({brings_bytes: MIB, enough: true})).toBe('frees 1.00 MiB: enough');
    expect(step({brings_bytes: MIB, enough: false})).toBe('frees 1.00 MiB: not enough alone');
    const of = (missing: number) =>
      savingWords({id: '', title: '', detail: '', brings_bytes: MIB, enough: false}, missing);
    expect(of(2 * MIB)).toBe('frees 1.00 MiB: not enough alone');
    expect(of(MIB)).toBe('frees 1.00 MiB: enough for this request, not for the whole step');
  });
});
