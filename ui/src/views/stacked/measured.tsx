/** A measured stretch: what it allocated and freed, what is left of that, and which call sites did most of it. */

import {useAnswer} from '../../kit/answer';
import {copyText} from '../../kit/copy';
import {FactList} from '../../kit/fact-list';
import {searchOf} from '../../kit/frame-menu';
import {placeOfWords} from '../../model/frames';
import {binary, count, counted, duration, exact} from '../../model/units';
import {engine, type Opened} from '../../state/session';
import * as store from '../../state/store';
import type {RangeTotals} from '../../worker/details';

/** Views in which a stretch can be measured. */
const MEASURING: readonly store.ViewId[] = ['timeline', 'segments'];

export function MeasuredStretch({device}: {device: Opened}) {
  const answer = useAnswer(device, () => {
    const range = store.selection.value;
    if (!range || range.from >= device.entries) return null;
    return engine().rangeTotals(range.from, Math.min(range.to, device.entries));
  });
  const totals = answer.value.value;
  if (!totals || !store.selection.value) return null;
  return (
    <section class="range">
      <h2>
        Measured range
        <span class="spring" />
        <button type="button" class="plain" title="Copy as text" onClick={() => copyText(textOf(totals))}>
          copy
        </button>
        <button
          type="button"
          class="plain"
          title="Clear (Esc)"
          aria-label="Clear"
          onClick={() => (store.selection.value = null)}
        >
          ×
        </button>
      </h2>
      <FactList facts={factsOf(totals)} />
      <Sites totals={totals} />
      <div class="actions">
        <button
          type="button"
          onClick={() => {
            store.setViewOption('stacks.of', 'allocated');
            store.view.value = 'stacks';
          }}
        >
          stacks of this range
        </button>
      </div>
    </section>
  );
}

/** Says how a stretch is measured, where none is. */
export function MeasureHint() {
  if (store.selection.value || !MEASURING.includes(store.view.value)) return null;
  return <section class="faint">Shift-drag to measure a range, or press m at each of its ends.</section>;
}

function Sites({totals: {sites, otherSites}}: {totals: RangeTotals}) {
  if (sites.length === 0) return null;
  return (
    <table class="stretch-sites">
      <thead>
        <tr>
          <th scope="col">allocated</th>
          <th scope="col">freed</th>
          <th scope="col">call site</th>
        </tr>
      </thead>
      <tbody>
        {sites.map(({site, label, allocatedBytes, allocations, freedBytes, frees}) => (
          <tr
            key={site}
            title={`${label}: ${count(allocatedBytes)} bytes in ${counted(allocations, 'allocation')}, ${count(freedBytes)} bytes in ${counted(frees, 'free')}`}
          >
            <td>{binary(allocatedBytes)}</td>
            <td>{binary(freedBytes)}</td>
            <td>
              <button
                type="button"
                class="plain site"
                onClick={() => (store.query.value = searchOf(placeOfWords(label)))}
              >
                {label}
              </button>
            </td>
          </tr>
        ))}
        {otherSites > 0 && (
          <tr class="faint">
            <td />
            <td />
            <td>{count(otherSites)} more</td>
          </tr>
        )}
      </tbody>
    </table>
  );
}

function factsOf(totals: RangeTotals): [string, string][] {
  const net = totals.endBytes - totals.startBytes;
  const facts: [string, string][] = [
    ['entries', `${count(totals.from)} to ${count(totals.to - 1)} (${count(totals.to - totals.from)})`],
    ['allocated', `${exact(totals.allocatedBytes)} in ${counted(totals.allocations, 'allocation')}`],
    ['freed', `${exact(totals.freedBytes)} in ${counted(totals.frees, 'free')}`],
    ['net', `${net > 0 ? '+' : ''}${exact(net)}`],
    ['kept', `${exact(totals.keptBytes)} in ${counted(totals.kept, 'allocation')} still active after it`],
    ['highest', `${exact(totals.peak.bytes)} after entry ${count(totals.peak.entry)}`],
  ];
  if (totals.reservedBytes > 0) facts.push(['reserved', `${exact(totals.reservedBytes)} at most`]);
  if (totals.durationUs !== undefined) facts.push(['time', duration(totals.durationUs)]);
  return facts;
}

function textOf(totals: RangeTotals): string {
  const facts = factsOf(totals).map(([name, value]) => `${name}: ${value}`);
  const sites = totals.sites.map(
    ({label, allocatedBytes, freedBytes}) =>
      `${count(allocatedBytes).padStart(16)}  ${count(freedBytes).padStart(16)}  ${label}`,
  );
  return [...facts, 'bytes allocated and freed by call site:', ...sites].join('\n');
}
