/** How far the simulator is, while somebody waits. */

import {useSignal, useSignalEffect} from '@preact/signals';
import type {SimulationProgress} from '../../data/source';
import {count} from '../../model/units';
import type {Asking} from './asking';

/** The line, a bar, and each setting that is run under. */
export function Waiting({asking}: {asking: Asking}) {
  const now = useSignal(performance.now());
  useSignalEffect(() => {
    const timer = setInterval(() => (now.value = performance.now()), 500);
    return () => clearInterval(timer);
  });
  const seconds = Math.max(0, Math.round((now.value - asking.since.value) / 1000));
  const progress = asking.progress.value;
  const part = progress && partDone(progress);
  return (
    <div class="simulating">
      <progress value={part ?? undefined} max={1} aria-label="Settings simulated" />
      <span class="faint" role="status">
        {lineOf(progress)}
        {seconds > 0 && `, ${seconds} s`}
      </span>
      {progress?.stage === 'running' && (
        <ul>
          {progress.settings.map(({conf, runs, at_entry: at}) => (
            <li key={conf}>
              <code>{conf === '' ? 'default settings' : conf}</code>
              <span class="faint">{rowOf(runs, at, progress.entries)}</span>
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}

/** The part of the work that is done, from 0 to 1; `null` where it is not known. */
export function partDone({stage, entries, recorded_entries, settings, settings_done}: SimulationProgress) {
  if (stage === 'recording') return entries > 0 ? recorded_entries / entries : null;
  if (stage === 'running') return settings.length > 0 ? settings_done / settings.length : null;
  return null;
}

/** The stage in words. */
export function lineOf(progress: SimulationProgress | null): string {
  switch (progress?.stage) {
    case 'waiting':
      return 'Waiting for another simulation to end …';
    case 'recording':
      return `Replaying the recording: entry ${count(progress.recorded_entries)} of ${count(progress.entries)}`;
    case 'running':
      return `${count(progress.settings_done)} of ${count(progress.settings.length)} settings simulated`;
    default:
      return 'Simulating …';
  }
}

/** How far one setting is. */
export function rowOf(runs: number, at: number, entries: number): string {
  if (runs === 0) return 'waiting';
  return `run ${count(runs)}: entry ${count(at)} of ${count(entries)}`;
}
