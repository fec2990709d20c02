/** What fills a GPU's memory: as a bar from the left, and as a table below it. */

import {binary} from '../model/units';
import * as store from '../state/store';
import {colourOf, type Part} from './bar';
import {exactly} from './exactly';

export function BarParts({parts}: {parts: readonly Part[]}) {
  return (
    <>
      {parts.map(({id, from, to, label, bytes}) => (
        <span
          key={id}
          class="part"
          style={{
            left: `${from * 100}%`,
            width: `${(to - from) * 100}%`,
            background: colourOf(id, store.shade.value),
          }}
          title={`${label}: ${exactly(bytes)}`}
        />
      ))}
    </>
  );
}

export function PartsTable({caption, parts}: {caption: string; parts: readonly Part[]}) {
  return (
    <table class="parts">
      <caption class="hidden">{caption}</caption>
      <tbody>
        {parts.map(({id, hint, label, bytes}) => (
          <tr key={id} title={hint}>
            <td>
              <span class="swatch" style={{background: colourOf(id, store.shade.value)}} />
            </td>
            <th scope="row">{label}</th>
            <td class="number" title={exactly(bytes)}>
              {binary(bytes)}
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
