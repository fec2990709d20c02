import {describe, expect, it} from 'vitest';
import type {FileState} from '../../data/source';
import {otherFile, shortNames} from './pair';

const file = (id: number, state: FileState['state'] = 'ready'): FileState => ({id, name: `${id}`, state});

describe('the file beside the open one', () => {
  it('is the chosen one, or the next that was read', () => {
    const all = [file(0), file(1, 'failed'), file(2), file(3, 'reading')];
    expect(otherFile(all, 0, undefined)?.id).toBe(2);
    expect(otherFile(all, 2, undefined)?.id).toBe(0);
    expect(otherFile(all, 2, '0')?.id).toBe(0);
    expect(otherFile(all, 0, '0')?.id).toBe(2);
    expect(otherFile([file(0), file(1, 'failed')], 0, '1')).toBeUndefined();
  });
});

describe('short names', () => {
  it('leave out what all have in common', () => {
    expect(shortNames(['fsdp2_qwen05b_rank0.pickle.gz', 'fsdp2_qwen05b_rank2.pickle.gz'])).toEqual(['rank0', 'rank2']);
    expect(shortNames(['before.pickle', 'after.pickle'])).toEqual(['before', 'after']);
    expect(shortNames(['run12.pickle', 'run13.pickle'])).toEqual(['run12', 'run13']);
    expect(shortNames(['only_one.json'])).toEqual(['only_one']);
  });

  it('stay whole where they would not tell files apart', () => {
    expect(shortNames(['a.pickle', 'a.pickle'])).toEqual(['a', 'a']);
    expect(shortNames(['run.pickle', 'run_2.pickle'])).toEqual(['run', 'run_2']);
  });
});
