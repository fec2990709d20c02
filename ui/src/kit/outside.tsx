/** Memory outside PyTorch in words: the choice above a picture, and the list beside it. */

import {ownerColours} from '../draw/palette';
import {address, binary, count, percent} from '../model/units';
import {OUTSIDE_WAYS, type OutsideWay, outsideShown} from '../state/outside';
import type {Opened} from '../state/session';
import * as store from '../state/store';
import type {OutsideDetails} from '../worker/outside';
import {capitalised, Prose} from './prose';

const WORDS: Record<OutsideWay, string> = {
  shown: 'shown',
  capacity: "up to the GPU's memory",
  hidden: 'hidden',
};

/** How memory is called that is not PyTorch's: where nothing of PyTorch's is known, its own is among it. */
export function outsideName({reservedMaxBytes}: Opened): string {
  return reservedMaxBytes > 0 ? 'outside PyTorch' : 'from the driver';
}

/** Whether it is drawn over the reserved memory. Nothing where the driver was not recorded. */
export function OutsideChoice({device, ways = OUTSIDE_WAYS}: {device: Opened; ways?: readonly OutsideWay[]}) {
  const {outside} = device.device;
  if (!outside) return null;
  const offered = ways.filter(way => way !== 'capacity' || outside.capacity_bytes);
  return (
    <label>
      {outsideName(device)}{' '}
      <select
        value={offered.includes(outsideShown.value) ? outsideShown.value : OUTSIDE_WAYS[0]}
        onChange={event => {
          const {value} = event.currentTarget;
          store.yRange.value = null;
          store.setViewOption('outside', value === OUTSIDE_WAYS[0] ? '' : value);
        }}
      >
        {offered.map(way => (
          <option key={way} value={way}>
            {WORDS[way]}
          </option>
        ))}
      </select>
    </label>
  );
}

/** Its owners after an entry, the most at the highest first. */
export function OutsideLegend({
  device,
  bytes,
  reservedBytes,
}: {
  device: Opened;
  bytes: readonly number[];
  reservedBytes: number;
}) {
  const {outside} = device.device;
  if (!outside || bytes.length === 0) return null;
  const colours = ownerColours(outside.owners.map(({title}) => title));
  const all = bytes.reduce((sum, one) => sum + one, 0);
  const used = all + reservedBytes;
  return (
    <section class="outside">
      <h2>{capitalised(outsideName(device))}</h2>
      <div class="total">
        <b title={`${count(all)} bytes`}>{binary(all)}</b>
        {device.reservedMaxBytes > 0 && <Prose text={`, with reserved memory ${binary(used)}`} />}
        {outside.capacity_bytes && <Prose text={` of ${binary(outside.capacity_bytes)}`} />}
      </div>
      <table class="legend" aria-label="Memory outside PyTorch by owner">
        <tbody>
          {outside.owners.map(({title}, owner) => (
            <tr
              key={title}
              class={bytes[owner] === 0 ? 'faint' : ''}
              title={`${title}: ${count(bytes[owner])} bytes (${percent(bytes[owner] / Math.max(1, used))} of the process's memory)`}
            >
              <td>
                <span class="swatch" style={{background: colours[owner]}} />
              </td>
              <td>{binary(bytes[owner])}</td>
              <td>{title}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

/** A block outside PyTorch. */
export function OutsideLines({device, details}: {device: Opened; details: OutsideDetails}) {
  const {title, bytes, site, allocEntry, freeEntry} = details;
  const from = allocEntry === 0 ? 'present at the first entry' : `since entry ${count(allocEntry)}`;
  return (
    <>
      <div>
        <b>{binary(bytes)}</b> of {title} at {address(details.address)}
        <span class="chip">{outsideName(device)}</span>
      </div>
      <div class="faint">
        {from}, {freeEntry === undefined ? 'still allocated at the dump' : `freed at ${count(freeEntry)}`}
      </div>
      {site && <div>allocated {site}</div>}
    </>
  );
}
