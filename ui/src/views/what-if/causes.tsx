/** Where the peak of reserved memory goes, and what would bring it down. */

import {fullFrame} from '../../model/frames';
import {binary, count} from '../../model/units';
import * as store from '../../state/store';
import {EntryLink} from '../summary/go';
import {placeWords, queryOf} from '../summary/report';
import type {Simulation} from './simulation';

const CAUSES: Record<string, [words: string, hint: string]> = {
  requested: ['requested', 'Bytes that the program requested, live at once'],
  rounding: ['rounding', 'Requests rounded up to 512 bytes, or as the settings say'],
  unsplit_slack: ['unsplit ends', 'Ends of blocks that are too small to be split off'],
  stream_isolation: ['streams', 'Free blocks of one stream that another cannot use'],
  private_pools: ['private pools', 'Free blocks of CUDA graphs and MemPools'],
  delayed_frees: ['delayed frees', 'Blocks that wait for other streams'],
  placement: ['placement', 'The rest: free memory in pieces between blocks'],
};

/** Bars that begin where the one before ends; one can be negative. */
export function Waterfall({waterfall}: Pick<Simulation, 'waterfall'>) {
  if (waterfall.length === 0) return null;
  let at = 0;
  const bars = waterfall.map(({cause, bytes}) => {
    const from = at;
    at += bytes;
    return {cause, bytes, low: Math.min(from, at), high: Math.max(from, at)};
  });
  const shown = bars.filter(({bytes}) => bytes !== 0);
  const most = Math.max(...bars.map(({high}) => high), 1);
  return (
    <div class="card">
      <h2>
        The reserved peak of {binary(at)}, by cause
        <span class="faint">each cause is removed in turn, and the program replayed</span>
      </h2>
      <table class="data waterfall">
        <tbody>
          {shown.map(({cause, bytes, low, high}) => (
            <tr key={cause}>
              <th scope="row" title={CAUSES[cause]?.[1]}>
                {CAUSES[cause]?.[0] ?? cause}
              </th>
              <td class="number" title={`${count(bytes)} bytes`}>
                {signed(bytes)}
              </td>
              <td class="span">
                <span
                  class={bytes < 0 ? 'less' : ''}
                  style={{left: `${(low / most) * 100}%`, width: `${((high - low) / most) * 100}%`}}
                />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** With a real minus sign. */
function signed(bytes: number): string {
  return bytes < 0 ? `−${binary(-bytes)}` : binary(bytes);
}

export function Alarms({alarms}: Pick<Simulation, 'alarms'>) {
  if (alarms.length === 0) return null;
  return (
    <ul class="findings">
      {alarms.map(({conf, own_reserved_bytes: own, reserved_bytes: other}) => (
        <li key={conf} class="warning">
          <span class="sign" role="img" aria-label="warning">
            ▲
          </span>
          <div>
            <b>{conf === '' ? 'default settings' : conf}</b> would reserve {binary(other)} instead of {binary(own)}
          </div>
        </li>
      ))}
    </ul>
  );
}

export function LongLived({sites}: Pick<Simulation, 'sites'>) {
  const useful = sites.filter(site => Math.max(site.hoisted_saves_bytes, site.pooled_saves_bytes) > 0);
  if (useful.length === 0) return null;
  return (
    <div class="card">
      <h2>
        Long-lived blocks that fragment memory <span class="faint">the peak would be lower by</span>
      </h2>
      <table class="data">
        <thead>
          <tr>
            <th scope="col" class="number" title="If they were allocated before anything else">
              if allocated first
            </th>
            <th scope="col" class="number" title="If they came from a pool of their own: torch.cuda.MemPool">
              if in their own MemPool
            </th>
            <th scope="col" class="number">
              count
            </th>
            <th scope="col">where</th>
          </tr>
        </thead>
        <tbody>
          {useful.map((site, i) => (
            <tr
              key={i}
              title={site.frames.map(({name, filename, line}) => fullFrame({name, file: filename, line})).join('\n')}
            >
              <td class="number">{savedWords(site.hoisted_saves_bytes)}</td>
              <td class="number">{savedWords(site.pooled_saves_bytes)}</td>
              <td class="number">{count(site.count)}</td>
              <td>
                <button
                  type="button"
                  class="plain inline site"
                  title="Search for it in the timeline"
                  onClick={() => {
                    const query = queryOf(site);
                    if (query) store.query.value = query;
                    store.view.value = 'timeline';
                  }}
                >
                  {placeWords(site)}
                </button>{' '}
                <span class="faint">{binary(site.requested_bytes)}</span>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function savedWords(bytes: number): string {
  if (bytes === 0) return '–';
  return bytes > 0 ? binary(bytes) : `${binary(-bytes)} higher`;
}

export function EmptyCaches({empty_caches: calls}: Pick<Simulation, 'empty_caches'>) {
  if (calls.length === 0) return null;
  return (
    <div class="card">
      <h2>
        Effect of each <code>empty_cache()</code>
      </h2>
      <table class="data">
        <thead>
          <tr>
            <th scope="col">entry</th>
            <th scope="col" class="number">
              calls
            </th>
            <th scope="col" class="number">
              saved at the peak
            </th>
            <th scope="col" class="number">
              more calls to the driver
            </th>
          </tr>
        </thead>
        <tbody>
          {calls.slice(0, 20).map(({entry, calls: times, saved_bytes: saved, device_allocs: allocs}, i) => (
            <tr key={i}>
              <td>{entry === null ? 'all together' : <EntryLink entry={entry} words={count(entry)} />}</td>
              <td class="number">{count(times)}</td>
              <td class="number">
                {saved === 0 ? 'nothing' : saved > 0 ? binary(saved) : `nothing: ${binary(-saved)} higher`}
              </td>
              <td class="number">{count(allocs)}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {calls.length > 20 && <p class="faint">and {count(calls.length - 20)} more</p>}
    </div>
  );
}
