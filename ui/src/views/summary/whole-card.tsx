/** All that the process has of the GPU at its peak, by owner, where the driver was recorded. */

import type {CardUse, Owner} from '../../data/generated/report';
import {ownerColours} from '../../draw/palette';
import {binary, count, percent} from '../../model/units';
import type {Opened} from '../../state/session';
import type {Report} from './report';

export function WholeCard({report, device: {device}}: {report: Report; device: Opened}) {
  const card = report.driver?.cards.find(one => one.device === device.device);
  return card ? <Owners card={card} titles={(device.outside?.owners ?? []).map(({title}) => title)} /> : null;
}

/** `titles` are those of the timeline, for their colours. */
function Owners({card, titles}: {card: CardUse; titles: readonly string[]}) {
  const {peak, capacity_bytes: capacity} = card;
  const owners = peak.owners.filter(({bytes}) => bytes !== 0);
  const colours = new Map(ownerColours(titles).map((colour, i) => [titles[i], colour]));
  return (
    <div class="card">
      <h2>
        Whole GPU at its peak{' '}
        <span class="faint" title={`${count(peak.bytes)} bytes`}>
          {binary(peak.bytes)}
          {capacity !== null && ` of ${binary(capacity)}`}
        </span>
      </h2>
      <table class="data">
        <tbody>
          {owners.map(owner => (
            <OwnerRow key={owner.title} owner={owner} all={peak.bytes} colour={colours.get(owner.title)} />
          ))}
        </tbody>
      </table>
    </div>
  );
}

function OwnerRow({owner, all, colour}: {owner: Owner; all: number; colour: string | undefined}) {
  const {title, bytes, counts} = owner;
  return (
    <tr class={counts ? '' : 'faint'} title={`${count(bytes)} bytes`}>
      <td class="number">{`${bytes < 0 ? '-' : ''}${binary(Math.abs(bytes))}`}</td>
      <td class="number">{counts ? percent(bytes / Math.max(1, all)) : ''}</td>
      <td>
        {colour && <span class="swatch" style={{background: colour}} />} {title}
        {!counts && ', not part of the sum'}
      </td>
    </tr>
  );
}
