/** The timeline: active memory over the entries or over time, one band per allocation. */

import {AllocationLines} from '../../kit/allocation';
import {openAllocationMenu} from '../../kit/allocation-menu';
import {binary, count} from '../../model/units';
import {emphasis, hidden} from '../../state/legend';
import {engine, type Opened, searchGeneration, shownEntry} from '../../state/session';
import * as store from '../../state/store';
import type {ChartSource, Hit, StackedChart} from '../stacked/chart';
import {showSelection} from '../stacked/commands';
import {showEntries} from '../stacked/gestures';
import {handingOver, StackedPlot} from '../stacked/plot';
import {TimelineToolbar} from './toolbar';

const SOURCE: ChartSource = {
  make: request =>
    engine().timeline(
      handingOver({
        ...request,
        colourBy: store.colourBy.value,
        highlightsSearch: store.query.value !== '',
        emphasis: emphasis.value,
      }),
    ),
  key: () => JSON.stringify([store.colourBy.value, searchGeneration.value, emphasis.value]),
  outlined: () => store.pinned.value,
  peak: ({peakEntry: entry, peakBytes, cardMaxBytes}) => {
    const bytes = peakBytes || cardMaxBytes;
    return {entry, bytes, words: `peak ${binary(bytes)}`};
  },
};

export function TimelineView({device}: {device: Opened}) {
  return (
    <section class="view" aria-label="Active memory timeline">
      <TimelineToolbar device={device} />
      <StackedPlot
        device={device}
        title="Timeline"
        label={`Stacked timeline of ${count(device.device.rows)} allocations. The memory that is active at the cursor is listed beside it.`}
        source={SOURCE}
        describe={(row, entry) => engine().describe(row, entry)}
        words={details => <AllocationLines details={details} />}
        onMenu={(hit, place) => {
          const isPinned = hit.row === store.pinned.value;
          void openAllocationMenu(hit.row, hit.entry, place, isPinned ? undefined : () => pin(hit));
        }}
        chosen={pinnedHit}
        onPin={pin}
        onFit={(row, chart) => void fitLife(row ?? store.pinned.value, chart)}
      />
    </section>
  );
}

/** Pins what was clicked, and puts the cursor at its entry. */
export function pin(hit: Hit | undefined): void {
  store.pinned.value = hit?.row ?? null;
  if (hit) store.cursor.value = hit.entry;
}

function pinnedHit(): Hit | undefined {
  const row = store.pinned.value;
  return row === null ? undefined : {row, isShared: false, isIdle: false, entry: shownEntry.value};
}

/** A band of this part of the whole height can be seen as it is. */
const VISIBLE_PART = 1 / 50;

/** Shows the life of a lifetime, zooming in on its bytes where it is thin; the selection if there is none. */
async function fitLife(row: number | null, chart: StackedChart): Promise<void> {
  if (row === null) {
    showSelection(chart);
    return;
  }
  const details = await engine().describe(row, shownEntry.value);
  store.pinned.value = row;
  showEntries(chart, details.allocEntry ?? 0, details.freeEntry ?? chart.device.entries, 0.25);
  const margin = Math.max(details.sizeBytes, 1024);
  const low = Math.max(0, details.at.belowBytes - margin);
  const isVisible = details.sizeBytes > chart.fitY.high * VISIBLE_PART;
  // Bands lie lower where groups are hidden.
  store.yRange.value = isVisible || hidden.value.length > 0 ? null : {low, high: low + details.sizeBytes + 2 * margin};
}
