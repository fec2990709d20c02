/** Requested, allocated, active and reserved bytes: at the peak, at the start and at the dump. */

import {binary, count} from '../../model/units';
import {EntryLink} from './go';
import type {DeviceReport} from './report';

const NAMES = {
  requested: 'as the program requested it',
  allocated: 'requested, rounded up to blocks',
  active: 'allocated, and freed but still in use by another stream',
  reserved: 'reserved from the driver: what `nvidia-smi` shows, without the CUDA context',
};

type Name = keyof typeof NAMES;

export function TotalsTable({device}: {device: DeviceReport}) {
  const {peak, start, end, block_sizes: sizes} = device;
  // A profile of `torch.profiler` has one total, and no dump.
  const isProfile = !peak.reserved_bytes && !end.reserved_bytes;
  const names: Name[] = isProfile ? ['allocated'] : (Object.keys(NAMES) as Name[]);
  const hasStart = names.some(name => start[`${name}_bytes`] > 0);
  return (
    <div class="card">
      <h2>Totals</h2>
      <table class="data">
        <thead>
          <tr>
            <th scope="col" />
            {hasStart && (
              <th scope="col" class="number">
                before the recording
              </th>
            )}
            <th scope="col" class="number">
              peak
            </th>
            <th scope="col" class="number">
              at entry
            </th>
            <th scope="col" class="number">
              at the {isProfile ? 'end' : 'dump'}
            </th>
          </tr>
        </thead>
        <tbody>
          {names
            .filter(name => [start, peak, end].some(totals => totals[`${name}_bytes`] > 0))
            .map(name => (
              <tr key={name}>
                <th scope="row" title={NAMES[name]}>
                  {name}
                </th>
                {hasStart && <Bytes totals={start} name={name} />}
                <Bytes totals={peak} name={name} />
                <td class="number">
                  <Entry entry={peak[`${name}_entry`]} />
                </td>
                <Bytes totals={end} name={name} />
              </tr>
            ))}
        </tbody>
      </table>
      {sizes.known !== 'exact' && (
        <p class="faint">
          sizes of blocks: {sizes.known}
          {sizes.reason && `; ${sizes.reason}`}
        </p>
      )}
    </div>
  );
}

/** The least bytes of each total and, where that is more, the most. */
type Totals = Record<`${Name}_bytes`, number> & {[most in `${Name}_bytes_at_most`]?: number};

function Bytes({totals, name}: {totals: Totals; name: Name}) {
  const bytes = totals[`${name}_bytes`];
  const most = totals[`${name}_bytes_at_most`];
  const hasMost = most !== undefined && most !== bytes;
  return (
    <td class="number" title={`${count(bytes)} bytes${hasMost ? `, at most ${count(most)}` : ''}`}>
      {binary(bytes)}
      {hasMost && <span class="faint"> to {binary(most)}</span>}
    </td>
  );
}

function Entry({entry}: {entry: number | null}) {
  return entry === null ? <span class="faint">before</span> : <EntryLink entry={entry} words={count(entry)} />;
}
