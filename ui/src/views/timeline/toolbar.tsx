/** The choices above the timeline. */

import {OutsideChoice} from '../../kit/outside';
import {SaveMenu} from '../../kit/save';
import {GROUPINGS, type Grouping} from '../../model/groups';
import {binary, count} from '../../model/units';
import {type Opened, switchAxis} from '../../state/session';
import * as store from '../../state/store';

/** What each grouping is called. */
const GROUPING_WORDS: Record<Grouping, string> = {
  site: 'call site',
  stack: 'whole stack',
  category: 'category',
  stream: 'stream',
  pool: 'pool',
  size: 'size',
};

export function TimelineToolbar({device}: {device: Opened}) {
  const {categories, time_us: times, peak, measure} = device.device;
  const allowed = GROUPINGS.filter(by => by !== 'category' || categories);
  return (
    <div class="toolbar">
      <label>
        colour by{' '}
        <select
          value={store.colourBy.value}
          onChange={event => {
            store.colourBy.value = event.currentTarget.value as Grouping;
          }}
        >
          {allowed.map(by => (
            <option key={by} value={by}>
              {GROUPING_WORDS[by]}
            </option>
          ))}
        </select>
      </label>
      <label>
        x axis{' '}
        <select value={store.axis.value} disabled={!times} onChange={() => void switchAxis(device)}>
          <option value="entry">entries</option>
          <option value="time">time</option>
        </select>
      </label>
      <OutsideChoice device={device} />
      {peak.bytes > 0 && (
        <span class="faint">
          peak {binary(peak.bytes)} {measure === 'active_bytes' ? 'active' : 'requested'}
          {peak.entry !== null && ` after entry ${count(peak.entry)}`}
        </span>
      )}
      <span class="spring" />
      <SaveMenu />
    </div>
  );
}
