/** Totals over the recording: a small chart, and the same as a table. */

import {useSignal} from '@preact/signals';
import {drawLevel, drawMarks, drawRuler, placesOfErrors} from '../../draw/overlay';
import {SmallChart} from '../../kit/small-chart';
import {binary, count} from '../../model/units';
import {highestShown, type Opened} from '../../state/session';
import type {TotalsOverTime} from '../../worker/totals';
import {goTo} from './go';
import {drawTotals} from './totals-draw';

/** Rows of the table. */
const TABLE_ROWS = 24;

export function TotalsChart({device, totals}: {device: Opened; totals: TotalsOverTime}) {
  const hover = useSignal<number | null>(null);
  const {marks, ceiling, measure} = device.device;
  const word = measure === 'active_bytes' ? 'active' : 'requested';
  const hasReserved = device.reservedMaxBytes > 0;
  const highBytes = highestShown(device) * 1.05;
  const column = hover.value === null ? undefined : columnAt(totals, hover.value);
  return (
    <div class="card">
      <h2>
        Over the recording
        <span class="faint" role="status">
          {column === undefined
            ? 'click to see it in the timeline'
            : `entry ${count(Math.floor(hover.value!))}: ${binary(totals.highBytes[column])} ${word}${hasReserved ? `, ${binary(totals.reservedBytes[column])} reserved` : ''}`}
        </span>
      </h2>
      <SmallChart
        label={`${word}${hasReserved ? ' and reserved' : ''} bytes over ${count(device.entries)} entries; the table below has the same numbers`}
        x={{from: 0, to: device.entries}}
        highBytes={highBytes}
        data={[totals, hover.value]}
        draw={(pen, viewport, ink) => {
          drawTotals(pen, viewport, totals, {area: ink.bar, steady: ink.strong, reserved: ink.reserved});
          if (ceiling) {
            const errors = placesOfErrors(viewport, marks, entry => entry);
            drawLevel(pen, viewport, ink.capacity, ceiling.bytes, ceiling.label, errors);
          }
          drawMarks(
            pen,
            viewport,
            ink,
            // Their words stand in the verdict above: here there is no room.
            marks.filter(({kind}) => kind === 'oom').map(mark => ({...mark, label: ''})),
            entry => entry,
          );
          if (hover.value !== null) drawRuler(pen, viewport, ink.accent, hover.value);
        }}
        onHover={position => (hover.value = position)}
        onClick={position =>
          goTo({words: '', view: 'timeline', cursor: Math.min(Math.floor(position), device.entries - 1)})
        }
      />
      <div class="kinds">
        <span>
          <span class="swatch strong" /> {word}, throughout
        </span>
        <span>
          <span class="swatch weak" /> {word}, at times
        </span>
        {hasReserved && (
          <span>
            <span class="swatch line" /> reserved
          </span>
        )}
      </div>
      <details>
        <summary>as a table</summary>
        <table class="data">
          <thead>
            <tr>
              <th scope="col" class="number">
                from entry
              </th>
              <th scope="col" class="number">
                {word}, least
              </th>
              <th scope="col" class="number">
                {word}, most
              </th>
              <th scope="col" class="number">
                reserved, most
              </th>
            </tr>
          </thead>
          <tbody>
            {summedUp(totals, TABLE_ROWS).map(row => (
              <tr key={row.entry}>
                <td class="number">{count(row.entry)}</td>
                <td class="number">{binary(row.low)}</td>
                <td class="number">{binary(row.high)}</td>
                <td class="number">{binary(row.reserved)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </details>
    </div>
  );
}

function columnAt({entries}: TotalsOverTime, position: number): number {
  const after = entries.findIndex(entry => entry > position);
  return after === -1 ? entries.length - 1 : Math.max(0, after - 1);
}

/** Fewer columns, with the extremes of those that each stands for. */
export function summedUp(totals: TotalsOverTime, rows: number) {
  const {entries, lowBytes, highBytes, reservedBytes} = totals;
  const wanted = Math.min(rows, entries.length);
  return Array.from({length: wanted}, (_, row) => {
    const from = Math.floor((row * entries.length) / wanted);
    const to = Math.floor(((row + 1) * entries.length) / wanted);
    return {
      entry: entries[from],
      low: Math.min(...lowBytes.subarray(from, to)),
      high: Math.max(...highBytes.subarray(from, to)),
      reserved: Math.max(...reservedBytes.subarray(from, to)),
    };
  });
}
