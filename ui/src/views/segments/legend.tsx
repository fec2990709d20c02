/** The legend of the segments: pools, streams and kinds with their colours, as the picture has them. */

import {useSignal, useSignalEffect} from '@preact/signals';
import {hexOf} from '../../draw/palette';
import {binary, count, counted, percent} from '../../model/units';
import {engine, type Opened, opened, shownEntry} from '../../state/session';
import * as store from '../../state/store';
import type {SegmentGroupTotal} from '../../worker/segments';

/** The groups of segments at the cursor. */
export function useSegmentGroups(device: Opened) {
  const groups = useSignal<SegmentGroupTotal[]>([]);
  useSignalEffect(() => {
    if (opened.value !== device) return;
    engine()
      .segmentTotals(shownEntry.value)
      .then(
        value => {
          groups.value = value;
        },
        () => {
          groups.value = [];
        },
      );
  });
  return groups;
}

export function SegmentLegend({device}: {device: Opened}) {
  const groups = useSegmentGroups(device).value;
  return (
    <section class="moment">
      <h2>
        Segments{' '}
        {store.cursor.value === null ? 'at the peak of active memory' : `after entry ${count(shownEntry.value)}`}
        <span class="spring" />
        {store.cursor.value !== null && (
          <button type="button" class="plain" title="Back to the peak" onClick={() => (store.cursor.value = null)}>
            peak
          </button>
        )}
      </h2>
      <table class="legend" aria-label="Reserved memory by colour">
        <tbody>
          {groups.map(({label, colour, segments, mappedBytes, usedBytes}) => (
            <tr
              key={label}
              title={`${label}: ${count(mappedBytes)} bytes reserved, ${count(usedBytes)} in active blocks`}
            >
              <td>
                <span class="swatch" style={{background: hexOf(colour)}} />
              </td>
              <td>{binary(mappedBytes)}</td>
              <td>
                {label}
                <div class="faint">
                  {counted(segments, 'segment')}, <span class="quantity">{freeWords(mappedBytes, usedBytes)}</span>
                </div>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      <p class="faint">Faint: free in the segment. Strong: in active blocks.</p>
    </section>
  );
}

/** `25.9 MiB free (18 %)`. */
function freeWords(mappedBytes: number, usedBytes: number): string {
  const free = mappedBytes - usedBytes;
  return `${binary(free)} free (${percent(free / Math.max(1, mappedBytes))})`;
}
