/** Reserved memory without a limit and the least memory that is enough, under each of the settings. */

import {useSignal} from '@preact/signals';
import {asSentence, Breakable} from '../../kit/prose';
import {binary, count, counted, percent} from '../../model/units';
import {LineSwatch} from './chart';
import type {Line} from './lines';
import {type CardFit, confWords, type Fit, type Simulation, smallestCard} from './simulation';

const ORDERS = {
  ample: (fit: Fit) => fit.ample_reserved_bytes,
  capacity: (fit: Fit) => fit.min_capacity_bytes,
  retries: (fit: Fit) => fit.num_alloc_retries,
} as const;

/** What a retry is, for the heads of columns. */
export const RETRIES_HINT =
  'How often a request failed at first and was served after PyTorch had released its cached segments: each costs time';

interface FitProps {
  readonly simulation: Simulation;
  /** By settings: their line, if there is one. */
  readonly lineOf: ReadonlyMap<string, Line>;
  readonly shown: ReadonlySet<string>;
  onToggle(id: string): void;
}

export function FitTable(props: FitProps) {
  const {simulation} = props;
  const by = useSignal<keyof typeof ORDERS>('capacity');
  const {fit, bound, ends_at_error: endsAtError} = simulation;
  if (fit.length === 0) return null;
  const order = ORDERS[by.value];
  const rows = fit.toSorted((a, b) => order(a) - order(b));
  const own = simulation.runs[0]?.conf;
  const most = Math.max(...fit.map(one => Math.max(one.min_capacity_bytes, one.ample_reserved_bytes)));
  const head = (name: keyof typeof ORDERS, words: string, hint: string) => (
    <th scope="col" class="number" aria-sort={by.value === name ? 'ascending' : 'none'}>
      <button type="button" class="plain" title={hint} onClick={() => (by.value = name)}>
        {words}
        {by.value === name && ' ▴'}
      </button>
    </th>
  );
  return (
    <div class="card">
      <h2>
        {endsAtError
          ? 'Up to the error: reserved without a limit, and the least memory that gets past it'
          : 'Reserved without a limit, and the least memory that is enough'}
        {bound && (
          <span class="faint" title={`${count(bound.live_bytes)} bytes`}>
            no setting can need less than the {binary(bound.live_bytes)} live
            {bound.live_entry !== null && ` after entry ${count(bound.live_entry)}`}
          </span>
        )}
      </h2>
      <table class="data fit settings row-blocks">
        <thead>
          <tr>
            <th scope="col">settings</th>
            {head('ample', 'reserved without a limit', 'The peak of reserved memory if memory were unlimited')}
            {head(
              'capacity',
              'least memory',
              'The least memory with which no request fails; with more, none fails either',
            )}
            {head('retries', 'retries', RETRIES_HINT)}
            {!endsAtError && <th scope="col">smallest GPU</th>}
          </tr>
        </thead>
        <tbody>
          {rows.map(one => (
            <FitRow key={one.conf} {...props} fit={one} isOwn={one.conf === own} most={most} />
          ))}
        </tbody>
      </table>
      {endsAtError && (
        <p class="faint">
          The recording ends at an out-of-memory error. The requests that the program would have made after it are
          unknown, so no memory here is known to be enough for the whole program.
        </p>
      )}
    </div>
  );
}

function FitRow(props: FitProps & {fit: Fit; isOwn: boolean; most: number}) {
  const {fit, isOwn, most} = props;
  const line = props.lineOf.get(fit.conf);
  const {min_capacity_bytes: least, min_capacity_any_order_bytes: anyOrder} = fit;
  const card = smallestCard(fit);
  return (
    <tr>
      <td class="whole">
        {line ? (
          <label>
            <input type="checkbox" checked={props.shown.has(line.id)} onChange={() => props.onToggle(line.id)} />{' '}
            <LineSwatch line={line} /> <Breakable text={confWords(fit.conf)} />
          </label>
        ) : (
          <Breakable text={confWords(fit.conf)} />
        )}{' '}
        {isOwn && <span class="chip">recorded</span>}
      </td>
      <td
        class="number bar"
        data-title="reserved without a limit"
        style={{'--share': `${(fit.ample_reserved_bytes / most) * 100}%`}}
        title={`${count(fit.ample_reserved_bytes)} bytes`}
      >
        {binary(fit.ample_reserved_bytes)}
      </td>
      <td
        class="number bar"
        data-title="least memory"
        style={{'--share': `${(least / most) * 100}%`}}
        title={`${count(least)} bytes, ${percent(fit.over_live_ratio - 1)} more than is live at once`}
      >
        {binary(least)}
        {anyOrder > least && (
          <span
            class="faint"
            title="How much is enough depends on where the driver puts segments: with this much, it fits wherever they are"
          >
            {' '}
            to {binary(anyOrder)}
          </span>
        )}
      </td>
      <td class="number" data-title="retries">
        {count(fit.num_alloc_retries)}
      </td>
      {!props.simulation.ends_at_error && (
        <td data-title="smallest GPU" title={fit.cards.map(cardWords).join('\n')}>
          {card ? `${card.gigabytes} GB` : 'none known'}
          {card && (
            <>
              {' '}
              <span class="faint card-name">{card.short_name}</span>
            </>
          )}
        </td>
      )}
    </tr>
  );
}

function cardWords({gigabytes, short_name: name, fits, num_alloc_retries: retries}: CardFit): string {
  const how = retries > 0 ? ` with ${counted(retries, 'retry', 'retries')}` : '';
  return `${gigabytes} GB (${name}): ${fits ? `fits${how}` : 'does not fit'}`;
}

/** Verdict and fit table, tab-separated. */
export function studyText({verdict, fit, ends_at_error: endsAtError}: Simulation): string {
  const head = ['settings', 'reserved without a limit (bytes)', 'least memory (bytes)', 'retries'];
  if (!endsAtError) head.push('smallest GPU');
  const rows = fit.map(one => [
    confWords(one.conf),
    one.ample_reserved_bytes,
    one.min_capacity_bytes,
    one.num_alloc_retries,
    ...(endsAtError ? [] : [smallestCard(one)?.short_name ?? '']),
  ]);
  return [...(verdict ? [asSentence(verdict.text)] : []), head.join('\t'), ...rows.map(row => row.join('\t'))].join(
    '\n',
  );
}
