/** The numbers of `highwater diff`. */

import {useSignal} from '@preact/signals';
import type {Batch, DeviceDiff, Diff, Side} from '../../data/generated/diff';
import {categoryWords} from '../../model/categories';
import {binary, count, counted, signed} from '../../model/units';
import {placeWords} from '../summary/report';

interface NumbersProps {
  readonly diff: Diff;
  readonly names: readonly string[];
}

/** Rows of the call sites at first. */
const SITES = 15;

export function Numbers({diff, names}: NumbersProps) {
  const [device] = diff.devices;
  if (!device) return null;
  return (
    <>
      <div class="card-columns">
        <div>
          <Totals device={device} names={names} />
          {device.batch && <PeakByBatch batch={device.batch} names={names} />}
          <Settings diff={diff} names={names} />
        </div>
        <Categories device={device} names={names} />
      </div>
      <CallSites device={device} names={names} />
    </>
  );
}

/** The heads of the columns: what, then each file, then the change. */
function Head({what, names}: {what: string; names: readonly string[]}) {
  return (
    <thead>
      <tr>
        <th scope="col">{what}</th>
        {names.map((name, i) => (
          <th key={i} scope="col" class="number">
            {name}
          </th>
        ))}
        <th scope="col" class="number">
          change
        </th>
      </tr>
    </thead>
  );
}

function Change({bytes}: {bytes: number}) {
  return <td class={`number ${bytes > 0 ? 'more' : bytes < 0 ? 'less' : 'faint'}`}>{signed(bytes)}</td>;
}

/** When they are compared, in words. */
export function momentWords({at, iteration, sides}: DeviceDiff): string {
  const entries = sides.map(({entry}) => (entry === null || entry === undefined ? 'the beginning' : count(entry)));
  const when = at === 'peak' ? 'at the peak' : at === 'end' ? 'at the end' : `at the peak of iteration ${iteration}`;
  return `${when}, after entries ${entries.join(' and ')}`;
}

const TOTALS: [keyof Side & `${string}_bytes`, string][] = [
  ['peak_requested_bytes', 'Peak requested'],
  ['peak_allocated_bytes', 'Peak allocated'],
  ['peak_reserved_bytes', 'Peak reserved'],
  ['end_allocated_bytes', 'Allocated at the end'],
];

function Totals({device, names}: {device: DeviceDiff; names: readonly string[]}) {
  const {sides} = device;
  return (
    <div class="card">
      <h2>Peaks and totals</h2>
      <table class="data">
        <Head what="" names={names} />
        <tbody>
          {TOTALS.filter(([key]) => key !== 'peak_reserved_bytes' || !sides.some(side => side.reserved_is_unknown)).map(
            ([key, words]) => (
              <tr key={key}>
                <th scope="row">{words}</th>
                {sides.map((side, i) => (
                  <td key={i} class="number">
                    {binary(side[key])}
                  </td>
                ))}
                <Change bytes={sides[sides.length - 1][key] - sides[0][key]} />
              </tr>
            ),
          )}
          <tr>
            <th scope="row">Complete iterations</th>
            {sides.map((side, i) => (
              <td key={i} class="number">
                {count(side.iterations)}
              </td>
            ))}
            <td />
          </tr>
        </tbody>
      </table>
    </div>
  );
}

/** The peaks of a few batches, in batches of the first file. */
function PeakByBatch({batch, names}: {batch: Batch; names: readonly string[]}) {
  const {peaks, points, fixed_bytes: fixed, bytes_per_unit: perUnit} = batch;
  const isSame = ([times, per]: readonly number[], ratio: readonly number[]) => times === ratio[0] && per === ratio[1];
  return (
    <div class="card">
      <h2>
        Peak by the batch
        <span class="faint">
          {binary(fixed)} fixed, {binary(perUnit)} for each batch of {names[0]}
        </span>
      </h2>
      <table class="data">
        <thead>
          <tr>
            <th scope="col">batch</th>
            <th scope="col" class="number">
              peak
            </th>
            <th scope="col">recorded</th>
          </tr>
        </thead>
        <tbody>
          {peaks.map(({batch_ratio: ratio, peak_bytes: peak}) => (
            <tr key={ratio.join('/')}>
              <th scope="row">{isSame(ratio, [1, 1]) ? '1' : `${ratio[1] === 1 ? ratio[0] : ratio.join('/')} ×`}</th>
              <td class="number">{binary(peak)}</td>
              <td>{names.filter((_, i) => points[i] && isSame(points[i].batch_ratio, ratio)).join(', ')}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Categories({device, names}: {device: DeviceDiff; names: readonly string[]}) {
  return (
    <div class="card">
      <h2>
        By category
        <span class="faint">{momentWords(device)}</span>
      </h2>
      <table class="data">
        <Head what="" names={names} />
        <tbody>
          {device.categories.map(({name, bytes, change_bytes: change}) => (
            <tr key={name}>
              <th scope="row">{categoryWords(name)}</th>
              {bytes.map((one, i) => (
                <td key={i} class="number">
                  {binary(one)}
                </td>
              ))}
              <Change bytes={change} />
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Settings({diff, names}: NumbersProps) {
  if (diff.settings.length === 0) return null;
  return (
    <div class="card">
      <h2>Settings that differ</h2>
      <table class="data">
        <thead>
          <tr>
            <th scope="col" />
            {names.map((name, i) => (
              <th key={i} scope="col">
                {name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {diff.settings.map(({key, values}) => (
            <tr key={key}>
              <th scope="row">
                <code>{key}</code>
              </th>
              {values.map((value, i) => (
                <td key={i}>{value === null ? <span class="faint">not recorded</span> : JSON.stringify(value)}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function CallSites({device, names}: {device: DeviceDiff; names: readonly string[]}) {
  const isWhole = useSignal(false);
  const changed = device.call_sites.filter(site => site.change_bytes !== 0);
  const shown = isWhole.value ? changed : changed.slice(0, SITES);
  return (
    <div class="card">
      <h2>
        Call sites that changed most
        <span class="faint">{momentWords(device)}</span>
      </h2>
      {changed.length === 0 ? (
        <p>No call site differs.</p>
      ) : (
        <table class="data changes">
          <thead>
            <tr>
              <th scope="col" class="number">
                change
              </th>
              {names.map((name, i) => (
                <th key={i} scope="col" class="number">
                  {name}
                </th>
              ))}
              <th scope="col">where</th>
            </tr>
          </thead>
          <tbody>
            {shown.map((site, row) => (
              <tr
                key={row}
                title={site.frames.map(({name, filename, line}) => `${filename}:${line} ${name}`).join('\n')}
              >
                <Change bytes={site.change_bytes} />
                {site.bytes.map((bytes, i) => (
                  <td key={i} class="number">
                    {binary(bytes)}
                  </td>
                ))}
                <td class="site">{placeWords(site)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {shown.length < changed.length && (
        <button type="button" class="plain" onClick={() => (isWhole.value = true)}>
          {counted(changed.length - shown.length, 'more call site')}
        </button>
      )}
    </div>
  );
}
