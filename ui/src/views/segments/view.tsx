/** Reserved memory over the x axis: one band a segment, and how much of each is in active blocks. */

import {OutsideChoice} from '../../kit/outside';
import {SaveMenu} from '../../kit/save';
import {binary, counted} from '../../model/units';
import {engine, type Opened} from '../../state/session';
import * as store from '../../state/store';
import type {SegmentGroupTotal} from '../../worker/segments';
import type {ChartSource} from '../stacked/chart';
import {showSelection} from '../stacked/commands';
import {handingOver, StackedPlot} from '../stacked/plot';
import {useSegmentGroups} from './legend';
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
        <OutsideChoice device={device} />
        <SaveMenu />
      </div>
      <StackedPlot
        device={device}
        title="Segments"
        label="Segments over time: their active blocks and their free memory. The totals at the cursor are above it."
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

/** All of them at the cursor; the panel tells them apart. */
function Totals({device}: {device: Opened}) {
  const groups = useSegmentGroups(device).value;
  const sum = (of: (group: SegmentGroupTotal) => number) => groups.reduce((all, group) => all + of(group), 0);
  const mapped = sum(({mappedBytes}) => mappedBytes);
  const free = mapped - sum(({usedBytes}) => usedBytes);
  return (
    <span>
      {counted(
        sum(({segments}) => segments),
        'segment',
      )}
      , {binary(mapped)} reserved, {binary(free)} of it free
    </span>
  );
}
