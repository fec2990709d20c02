/** Reserved memory over the x axis: one band a segment, and how much of each is in active blocks. */

import {useSignal, useSignalEffect} from '@preact/signals';
import {hexOf} from '../../draw/palette';
import {SaveMenu} from '../../kit/save';
import {binary, count, counted, percent} from '../../model/units';
import {engine, type Opened, opened, shownEntry} from '../../state/session';
import * as store from '../../state/store';
import type {SegmentGroupTotal} from '../../worker/segments';
import type {ChartSource} from '../stacked/chart';
import {showSelection} from '../stacked/commands';
import {handingOver, StackedPlot} from '../stacked/plot';
import {SegmentLines} from './segment-lines';

const SOURCE: ChartSource = {
  make: request => engine().segments(handingOver(request)),
  key: () => 'segments',
  outlined: () => null,
};

export function SegmentsView({device}: {device: Opened}) {
  return (
    <section class="view" aria-label="Segments over time">
      <div class="toolbar">
        <Totals device={device} />
        <span class="spring" />
        <SaveMenu />
      </div>
      <StackedPlot
        device={device}
        title="Segments"
        label="Stacked timeline of segments: what they hold in active blocks, and what is free in them. The totals at the cursor are above it."
        source={SOURCE}
        describe={(segment, entry) => engine().describeSegment(segment, entry)}
        words={(details, hit) => <SegmentLines details={details} isFree={hit.isIdle} />}
        onPin={hit => {
          if (hit) store.cursor.value = hit.entry;
        }}
        onFit={(_, chart) => showSelection(chart)}
      />
    </section>
  );
}

/** The pools and streams at the cursor: the picture's text. */
function Totals({device}: {device: Opened}) {
  const totals = useSignal<SegmentGroupTotal[]>([]);
  useSignalEffect(() => {
    if (opened.value !== device) return;
    engine()
      .segmentTotals(shownEntry.value)
      .then(
        value => {
          totals.value = value;
        },
        () => {
          totals.value = [];
        },
      );
  });
  return (
    <table class="totals" aria-label={`Segments after entry ${count(shownEntry.value)}`}>
      <tbody>
        {totals.value.map(({label, colour, segments, mappedBytes, usedBytes}) => (
          <tr key={label}>
            <td>
              <span class="swatch" style={{background: hexOf(colour)}} />
            </td>
            <td>{label}</td>
            <td>{counted(segments, 'segment')}</td>
            <td>{binary(mappedBytes)} reserved</td>
            <td>{binary(mappedBytes - usedBytes)} free</td>
            <td>{percent((mappedBytes - usedBytes) / Math.max(1, mappedBytes))}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
