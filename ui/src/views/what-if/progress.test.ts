import {describe, expect, it} from 'vitest';
import type {SimulationProgress} from '../../data/source';
import {lineOf, partDone, rowOf} from './progress';

const running: SimulationProgress = {
  stage: 'running',
  entries: 952_319,
  recorded_entries: 952_319,
  settings_done: 2,
  settings: Array.from({length: 8}, () => ({conf: '', runs: 7, at_entry: 431_002})),
};

describe('the progress of a simulation', () => {
  it('counts entries of the recording first, then settings', () => {
    const recording: SimulationProgress = {...running, stage: 'recording', recorded_entries: 476_159.5, settings: []};
    expect(partDone(recording)).toBe(0.5);
    expect(lineOf({...recording, recorded_entries: 1024})).toBe('Replaying the recording: entry 1,024 of 952,319');
    expect(partDone(running)).toBe(0.25);
    expect(lineOf(running)).toBe('2 of 8 settings simulated');
    expect(rowOf(7, 431_002, 952_319)).toBe('run 7: entry 431,002 of 952,319');
  });

  it('promises nothing while it waits, or knows nothing', () => {
    const waiting: SimulationProgress = {...running, stage: 'waiting', settings: []};
    expect([partDone(waiting), partDone({...running, settings: []})]).toEqual([null, null]);
    expect(lineOf(waiting)).toBe('Waiting for another simulation to end …');
    expect(lineOf(null)).toBe('Simulating …');
    expect(rowOf(0, 0, 10)).toBe('waiting');
  });
});
