/** What was active at the peak: by call site, and by category where there is one. */

import {useSignal} from '@preact/signals';
import {categoryWords} from '../../model/categories';
import {binary, count, counted, percent} from '../../model/units';
import * as store from '../../state/store';
import {EntryLink} from './go';
import {type CallSite, type DeviceReport, placeWords, queryOf} from './report';

/** Rows shown before the rest is summed up. */
const ROWS = 12;

export function CallSites({device}: {device: DeviceReport}) {
  const isWhole = useSignal(false);
  const at = device.at_peak;
  if (!at) return null;
  const sites = at.call_sites.filter(({bytes}) => bytes > 0);
  const all = sites.reduce((sum, {bytes}) => sum + bytes, 0);
  const shown = isWhole.value ? sites : sites.slice(0, ROWS);
  const rest = sites.slice(shown.length);
  const restBytes = rest.reduce((sum, {bytes}) => sum + bytes, 0);
  const moment = [
    ...(at.iteration === null ? [] : [`iteration ${count(at.iteration)}`]),
    ...(at.phase === null ? [] : [at.phase]),
    ...at.scopes,
  ];
  return (
    <div class="card">
      <h2>
        {at.entry === null ? 'Live at the dump' : 'Live at the peak'}
        <span class="faint">
          {at.entry !== null && (
            <>
              after entry <EntryLink entry={at.entry} words={count(at.entry)} />
            </>
          )}
          {moment.length > 0 && ` · ${moment.join(' › ')}`}
        </span>
        <span class="spring" />
        <button
          type="button"
          class="plain"
          onClick={() => {
            if (at.entry !== null) store.cursor.value = at.entry;
            store.setViewOption('stacks.of', 'live');
            store.view.value = 'stacks';
          }}
        >
          flame graph
        </button>
      </h2>
      <table class="data sites">
        <caption class="hidden">Call sites by bytes at the peak</caption>
        <thead>
          <tr>
            <th scope="col" class="number">
              {at.by === 'requested_bytes' ? 'requested' : 'allocated'}
            </th>
            <th scope="col" class="number">
              share
            </th>
            <th scope="col" class="number">
              count
            </th>
            <th scope="col">where</th>
          </tr>
        </thead>
        <tbody>
          {shown.map((site, i) => (
            <SiteRow key={i} site={site} all={all} />
          ))}
          {rest.length > 0 && (
            <tr>
              <td class="number">{binary(restBytes)}</td>
              <td class="number">{percent(all > 0 ? restBytes / all : 0)}</td>
              <td />
              <td>
                <button type="button" class="plain inline" onClick={() => (isWhole.value = true)}>
                  {counted(rest.length, 'more call site')}
                </button>
              </td>
            </tr>
          )}
        </tbody>
      </table>
    </div>
  );
}

function SiteRow({site, all}: {site: CallSite; all: number}) {
  const share = all > 0 ? site.bytes / all : 0;
  const query = queryOf(site);
  return (
    <tr title={site.frames.map(({name, filename, line}) => `${filename}:${line} ${name}`).join('\n')}>
      <td class="number bar" style={{'--share': `${share * 100}%`}}>
        {binary(site.bytes)}
      </td>
      <td class="number">{percent(share)}</td>
      <td class="number">{count(site.count)}</td>
      <td>
        <button
          type="button"
          class="plain inline site"
          title="Search for it in the timeline"
          onClick={() => {
            if (query) store.query.value = query;
            store.view.value = 'timeline';
          }}
        >
          {placeWords(site)}
        </button>
      </td>
    </tr>
  );
}

export function Categories({device}: {device: DeviceReport}) {
  const categories = Object.entries(device.at_peak?.categories ?? {}).filter(([, bytes]) => bytes > 0);
  // All unknown says nothing.
  if (categories.every(([name]) => name === 'unknown')) return null;
  const all = categories.reduce((sum, [, bytes]) => sum + bytes, 0);
  return (
    <div class="card">
      <h2>Categories at the peak</h2>
      <table class="data">
        <tbody>
          {categories
            .sort(([, a], [, b]) => b - a)
            .map(([name, bytes]) => (
              <tr key={name}>
                <th scope="row">{categoryWords(name)}</th>
                <td class="number bar" style={{'--share': `${(bytes / all) * 100}%`}}>
                  {binary(bytes)}
                </td>
                <td class="number">{percent(bytes / all)}</td>
              </tr>
            ))}
        </tbody>
      </table>
    </div>
  );
}
