import {describe, expect, it} from 'vitest';
import {shortNames} from './short-names';

describe('names of files', () => {
  it('are cut to what differs', () => {
    const ranks = [0, 1, 2, 3].map(rank => `fsdp2_qwen05b_rank${rank}.pickle.gz`);
    expect(shortNames(ranks)).toEqual(['rank0', 'rank1', 'rank2', 'rank3']);
    expect(shortNames(['run-0.after.pickle', 'run-1.after.pickle'])).toEqual(['run-0', 'run-1']);
    expect(shortNames(['a_before.pkl', 'a_after.pkl'])).toEqual(['before', 'after']);
  });

  it('stay whole where one is alone, or nothing is common', () => {
    expect(shortNames(['oom_gpt2_8gib.pickle.gz'])).toEqual(['oom_gpt2_8gib']);
    expect(shortNames(['oom_gpt2.pickle', 'annotated.pickle.zst'])).toEqual(['oom_gpt2', 'annotated']);
    expect(shortNames([])).toEqual([]);
  });

  it('of the same file twice are alike, and one that begins as another does is told from it', () => {
    expect(shortNames(['run.pickle', 'run.pickle'])).toEqual(['run', 'run']);
    expect(shortNames(['run.pickle', 'run_2.pickle'])).toEqual(['run', 'run_2']);
  });
});
