/** Iterations with their phases, each a stretch that can be selected; and what they leave behind. */

import {useSignal} from '@preact/signals';
import {binary, count} from '../../model/units';
import {goTo, PlaceButtons} from './go';
import {type DeviceReport, placeWords, type ReportIteration, type ReportPhase} from './report';

/** Rows shown at first, and with each further click. */
const ROWS = 12;
/** Columns for phases. */
const PHASES = 5;

export function Iterations({device}: {device: DeviceReport}) {
  const shown = useSignal(ROWS);
  const {iterations, iterations_by: by} = device;
  if (iterations.length === 0) return null;
  const most = Math.max(...iterations.slice(0, 10_000).map(peakOf), 1);
  const names = [...new Set(iterations.slice(0, 1000).flatMap(({phases}) => phases.map(({name}) => name)))].slice(
    0,
    PHASES,
  );
  return (
    <div class="card">
      <h2>
        {count(iterations.length)} {iterations.length === 1 ? 'iteration' : 'iterations'}
        <span class="faint">{by && `by ${by}; `}peak of each, and of its phases</span>
      </h2>
      <table class="data iterations row-blocks">
        <thead>
          <tr>
            <th scope="col" class="number">
              #
            </th>
            <th scope="col">entries</th>
            <th scope="col" class="number">
              peak
            </th>
            <th scope="col" class="number">
              at its end
            </th>
            {names.map(name => (
              <th key={name} scope="col" class="number">
                {name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {iterations.slice(0, shown.value).map((iteration, i) => (
            <IterationRow key={i} number={i} iteration={iteration} most={most} names={names} />
          ))}
        </tbody>
      </table>
      {iterations.length > shown.value && (
        <button type="button" class="plain" onClick={() => (shown.value += ROWS * 8)}>
          {count(iterations.length - shown.value)} more
        </button>
      )}
      {device.growth.length > 0 && <LeftBehind device={device} />}
    </div>
  );
}

function peakOf({peak_allocated_bytes: allocated, peak_requested_bytes: requested}: ReportIteration): number {
  return allocated ?? requested;
}

interface RowProps {
  number: number;
  iteration: ReportIteration;
  most: number;
  names: string[];
}

function IterationRow({number, iteration, most, names}: RowProps) {
  const {start_entry: start, end_entry: end, complete} = iteration;
  return (
    <tr>
      <td class="number" data-title="iteration">
        {number}
      </td>
      <td data-title="entries">
        <StretchButton name={`iteration ${number}`} from={start} to={end + 1} words={`${count(start)}–${count(end)}`} />
        {!complete && <span class="faint"> incomplete</span>}
      </td>
      <td class="number bar" data-title="peak" style={{'--share': `${(peakOf(iteration) / most) * 100}%`}}>
        {binary(peakOf(iteration))}
      </td>
      <td class="number" data-title="at its end">
        {binary(iteration.end_allocated_bytes ?? iteration.end_requested_bytes)}
      </td>
      {names.map(name => (
        <td key={name} class="number" data-title={name}>
          <PhaseCell iteration={iteration} name={name} />
        </td>
      ))}
    </tr>
  );
}

/** The phase of a name with the highest peak: with several backward passes in an iteration there are several. */
function PhaseCell({iteration, name}: {iteration: ReportIteration; name: string}) {
  const phases = iteration.phases.filter(phase => phase.name === name);
  if (phases.length === 0) return <span class="faint">–</span>;
  const bytesOf = (phase: ReportPhase) => phase.peak_allocated_bytes ?? phase.peak_requested_bytes;
  const highest = phases.reduce((best, phase) => (bytesOf(phase) > bytesOf(best) ? phase : best));
  const {start_entry: from, end_entry: last} = highest;
  return (
    <>
      <StretchButton name={name} from={from} to={last + 1} words={binary(bytesOf(highest))} />
      {phases.length > 1 && <span class="faint"> of {count(phases.length)}</span>}
    </>
  );
}

function StretchButton({name, from, to, words}: {name: string; from: number; to: number; words: string}) {
  return (
    <button
      type="button"
      class="plain inline"
      title={`Select ${name} in the timeline: entries ${count(from)} to ${count(to - 1)}`}
      onClick={() => goTo({words, view: 'timeline', selection: {from, to}})}
    >
      {words}
    </button>
  );
}

function LeftBehind({device}: {device: DeviceReport}) {
  return (
    <>
      <h3>Memory that iterations leave behind</h3>
      <table class="data">
        <thead>
          <tr>
            <th scope="col" class="number">
              an iteration
            </th>
            <th scope="col" class="number">
              in all
            </th>
            <th scope="col" class="number">
              count
            </th>
            <th scope="col">where</th>
          </tr>
        </thead>
        <tbody>
          {device.growth.map((growth, i) => (
            <tr key={i} title={growth.frames.map(({name, filename, line}) => `${filename}:${line} ${name}`).join('\n')}>
              <td class="number">{binary(growth.bytes_per_iteration)}</td>
              <td class="number">{binary(growth.bytes)}</td>
              <td class="number">{count(growth.count)}</td>
              <td>{placeWords(growth)}</td>
            </tr>
          ))}
        </tbody>
      </table>
      <div class="actions">
        <PlaceButtons places={device.growth_places} />
      </div>
    </>
  );
}
