/** Runs: under which settings, with how much memory, and how each ended. */

import {Breakable, Prose} from '../../kit/prose';
import {binary, count, counted} from '../../model/units';
import {EntryLink} from '../summary/go';
import {placeWords} from '../summary/report';
import {LineSwatch} from './chart';
import {RETRIES_HINT} from './fit-table';
import {type Line, lineId} from './lines';
import {confWords, type SimulatedRun, type Simulation} from './simulation';

const CONFIDENCE = {
  exact: '',
  'address-sensitive': 'depends on where the driver puts segments',
  'premise-broken': 'the program would not have run as recorded',
} as const;

interface RunsProps {
  readonly heading: string;
  readonly simulation: Simulation;
  readonly lines: readonly Line[];
}

export function RunsTable({heading, simulation, lines}: RunsProps) {
  const {runs, ends_at_error: endsAtError} = simulation;
  if (runs.length === 0) return null;
  const failed = runs.filter(({oom}) => oom);
  return (
    <div class="card">
      <h2>{heading}</h2>
      <table class="data settings row-blocks">
        <thead>
          <tr>
            <th scope="col">settings</th>
            <th scope="col" class="number">
              memory
            </th>
            <th scope="col">outcome</th>
            <th scope="col" class="number">
              peak allocated
            </th>
            <th scope="col" class="number">
              peak reserved
            </th>
            <th scope="col" class="number" title={RETRIES_HINT}>
              retries
            </th>
          </tr>
        </thead>
        <tbody>
          {runs.map((run, i) => (
            <RunRow key={i} run={run} line={lines.find(({id}) => id === lineId(run))} endsAtError={endsAtError} />
          ))}
        </tbody>
      </table>
      {failed.map((run, i) => (
        <Failure key={i} run={run} />
      ))}
    </div>
  );
}

function RunRow({run, line, endsAtError}: {run: SimulatedRun; line: Line | undefined; endsAtError: boolean}) {
  const doubt = CONFIDENCE[run.confidence];
  const [low, high] = run.peak_reserved_range_bytes ?? [run.peak_reserved_bytes, run.peak_reserved_bytes];
  return (
    <tr>
      <td class="whole">
        {line && <LineSwatch line={line} />} <Breakable text={confWords(run.conf)} />
      </td>
      <td class="number" data-title="memory" title={memoryTitle(run)}>
        {memoryWords(run)}
      </td>
      <td class="whole">
        {run.outcome === 'fits' ? (
          <span class="good">✓ {endsAtError ? 'gets past the error' : 'fits'}</span>
        ) : (
          <span class="danger">
            ✗ out of memory
            {run.oom_entry !== undefined && (
              <>
                {' '}
                at <EntryLink entry={run.oom_entry} words={count(run.oom_entry)} />
              </>
            )}
          </span>
        )}
        {doubt && (
          <>
            {' '}
            <span class="chip" title={run.reason}>
              {doubt}
            </span>
          </>
        )}
      </td>
      <td class="number" data-title="peak allocated" title={`${count(run.peak_allocated_bytes)} bytes`}>
        {binary(run.peak_allocated_bytes)}
      </td>
      <td class="number" data-title="peak reserved" title={`${count(run.peak_reserved_bytes)} bytes`}>
        {binary(low) === binary(high) ? binary(run.peak_reserved_bytes) : `${binary(low)} to ${binary(high)}`}
      </td>
      <td class="number" data-title="retries">
        {count(run.num_alloc_retries)}
      </td>
    </tr>
  );
}

/** The memory that PyTorch can have, and whose it is. */
function memoryWords({card, capacity_bytes: bytes}: SimulatedRun): string {
  if (bytes === null) return 'no limit';
  return card === undefined ? binary(bytes) : `${card} (${binary(bytes)})`;
}

function memoryTitle({card, card_total_bytes: total, capacity_bytes: bytes}: SimulatedRun): string | undefined {
  if (card === undefined || total === undefined || bytes === null) return undefined;
  return `${card}: ${binary(total)} in all, ${binary(total - bytes)} of it for the CUDA context`;
}

/** What PyTorch would have said, and what was in the way. */
function Failure({run}: {run: SimulatedRun}) {
  const {oom} = run;
  if (!oom) return null;
  const {pinning} = oom;
  return (
    <details class="oom-error">
      <summary>
        {confWords(run.conf)}: {binary(oom.requested_bytes)} requested
        {(oom.place || oom.frames[0]) && ` at ${placeWords(oom)}`}
      </summary>
      {pinning && (
        <p>
          Freeing {pinning.count === 1 ? 'one block' : counted(pinning.count, 'block')} of {binary(pinning.bytes)}
          {pinning.count > 1 && ' in all'}
          {pinning.call_sites[0] && ` (${pinning.count > 1 ? 'mostly ' : ''}${placeWords(pinning.call_sites[0])})`}{' '}
          would have been enough{!pinning.is_smallest && '; fewer may be enough'}.
        </p>
      )}
      <p>
        <code class="message">{oom.message}</code>
      </p>
      {run.reason && (
        <p class="faint">
          <Prose text={run.reason} />
        </p>
      )}
    </details>
  );
}
