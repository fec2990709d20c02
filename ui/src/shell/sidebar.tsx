/** The panel at the right: the pinned allocation, the selected stretch, and what is there at the cursor. */

import {useSignal, useSignalEffect} from '@preact/signals';
import {hexOf} from '../draw/palette';
import {interesting, lifeOf} from '../kit/allocation';
import {legendItems} from '../kit/allocation-menu';
import {copyText} from '../kit/copy';
import {FrameLink} from '../kit/frame-menu';
import {menuAt} from '../kit/menu';
import {fullFrame} from '../model/frames';
import {address, binary, count, counted, exact, percent} from '../model/units';
import {engine, type Opened, opened, shownEntry} from '../state/session';
import * as store from '../state/store';
import {MeasuredStretch} from '../views/stacked/measured';
import type {MomentTotals, RowDetails} from '../worker/details';
import type {Legend, LegendLine} from '../worker/grouping';

/** Lines of the legend, and of one that was asked to show more: a page of a million lines would not open. */
const LEGEND_MAX = 14;
const WHOLE_LEGEND_MAX = 1000;

export function Sidebar({device}: {device: Opened}) {
  return (
    <aside aria-label="Details">
      <Pinned device={device} />
      <MeasuredStretch device={device} />
      <Moment device={device} />
    </aside>
  );
}

/** A value of the worker that follows signals; the old one stays until the new one is there. */
function useAnswer<T>(device: Opened, ask: () => Promise<T> | null) {
  const answer = useSignal<T | null>(null);
  useSignalEffect(() => {
    if (opened.value !== device) return;
    let isStale = false;
    const asked = ask();
    if (!asked) answer.value = null;
    else {
      asked.then(
        value => {
          if (!isStale) answer.value = value;
        },
        () => {
          if (!isStale) answer.value = null;
        },
      );
    }
    return () => {
      isStale = true;
    };
  });
  return answer;
}

function Pinned({device}: {device: Opened}) {
  const answer = useAnswer(device, () => {
    const row = store.pinned.value;
    return row === null || row >= device.device.rows ? null : engine().describe(row, shownEntry.value);
  });
  const details = answer.value;
  if (!details || store.pinned.value === null) return null;
  return (
    <section class="pinned">
      <h2>
        Allocation
        <span class="spring" />
        <button type="button" class="plain" title="Copy as text" onClick={() => copyText(textOf(details))}>
          copy
        </button>
        <button
          type="button"
          class="plain"
          title="Unpin (Esc)"
          aria-label="Unpin"
          onClick={() => (store.pinned.value = null)}
        >
          ×
        </button>
      </h2>
      <Facts facts={factsOf(details)} />
      <div class="actions">
        <button type="button" onClick={() => showState(details.allocEntry ?? 0)}>
          state at its birth
        </button>
        <button
          type="button"
          disabled={details.freeEntry === undefined}
          onClick={() => showState(details.freeEntry ?? 0)}
        >
          at its end
        </button>
        <button type="button" title="Search for its call site" onClick={() => (store.query.value = siteQuery(details))}>
          all of this site
        </button>
      </div>
      <Frames details={details} />
    </section>
  );
}

function showState(entry: number): void {
  store.cursor.value = entry;
  store.view.value = 'state';
}

function siteQuery(details: RowDetails): string {
  const frame = interesting(details.frames)[0];
  return frame ? `"${frame.file}:${frame.line}"` : `"${details.site}"`;
}

function factsOf(details: RowDetails): [string, string][] {
  const facts: [string, string][] = [
    ['size', exact(details.sizeBytes)],
    ['requested', exact(details.requestedBytes)],
    ['address', `${address(details.address)} (${details.name})`],
    ['life', lifeOf(details)],
    ['stream', details.stream],
    ['pool', details.pool],
  ];
  if (details.category) facts.push(['category', details.category]);
  if (details.at.awaitsFree && details.freeRequestedEntry !== undefined) {
    facts.push(['awaits free', `since entry ${count(details.freeRequestedEntry)}`]);
  }
  facts.push([
    `at entry ${count(details.at.entry)}`,
    `number ${count(details.at.rank)} by size of ${count(details.at.of)}`,
  ]);
  return facts;
}

function Facts({facts}: {facts: [string, string][]}) {
  return (
    <dl class="facts">
      {facts.map(([name, value]) => (
        <>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </>
      ))}
    </dl>
  );
}

function Frames({details}: {details: RowDetails}) {
  const isWhole = store.viewOption('frames', ['own', 'all']) === 'all';
  const own = interesting(details.frames);
  const shown = isWhole ? details.frames : own;
  const hidden = details.frames.length - own.length;
  return (
    <>
      <ol class="frames">
        {shown.map((frame, i) => (
          <li key={i} class={frame.owner === 'user' ? '' : 'faint'}>
            <FrameLink frame={frame} stack={details.frames} />
          </li>
        ))}
        {shown.length === 0 && <li class="faint">{details.site}</li>}
      </ol>
      {hidden > 0 && (
        <button type="button" class="plain" onClick={() => store.setViewOption('frames', isWhole ? 'own' : 'all')}>
          {isWhole ? 'show own code only' : `show ${counted(hidden, 'frame')} of PyTorch, Python and C++`}
        </button>
      )}
    </>
  );
}

function textOf(details: RowDetails): string {
  const facts = factsOf(details).map(([name, value]) => `${name}: ${value}`);
  const frames = details.frames.map(frame => `  ${fullFrame(frame)}`);
  return [...facts, 'stack, innermost first:', ...frames].join('\n');
}

function Moment({device}: {device: Opened}) {
  const totals = useAnswer<MomentTotals>(device, () => engine().moment(shownEntry.value));
  const answer = useAnswer<Legend>(device, () => engine().legend(store.colourBy.value, shownEntry.value));
  const isWhole = useSignal(false);
  const moment = totals.value;
  if (!moment || !answer.value) return null;
  const {lines: legend, leftOut} = answer.value;
  const shown = legend.slice(0, isWhole.value ? WHOLE_LEGEND_MAX : LEGEND_MAX);
  const rest = legend.slice(shown.length);
  const restCount = rest.length + leftOut;
  const restBytes = rest.reduce((sum, {bytes}) => sum + bytes, 0);
  return (
    <section class="moment">
      <h2>
        {store.cursor.value === null ? 'At the peak' : `After entry ${count(moment.entry)}`}
        <span class="spring" />
        <button type="button" class="plain" title="Copy as text" onClick={() => copyText(legendText(moment, legend))}>
          copy
        </button>
        {store.cursor.value !== null && (
          <button type="button" class="plain" title="Back to the peak" onClick={() => (store.cursor.value = null)}>
            peak
          </button>
        )}
      </h2>
      <div class="total">
        <b title={`${count(moment.bytes)} bytes`}>{binary(moment.bytes)}</b>{' '}
        {device.device.measure === 'active_bytes' ? 'active' : 'requested'} in {count(moment.count)}
        {device.reservedMaxBytes > 0 && `, ${binary(moment.reservedBytes)} reserved`}
      </div>
      <table class="legend" aria-label="Active memory by colour">
        <tbody>
          {shown.map(line => (
            <LegendRow key={line.group} line={line} all={moment.bytes} />
          ))}
          {restCount > 0 && (
            <tr class="faint">
              <td />
              <td>{binary(restBytes)}</td>
              <td>
                {isWhole.value ? (
                  `${count(restCount)} more`
                ) : (
                  <button type="button" class="plain site" onClick={() => (isWhole.value = true)}>
                    {count(restCount)} more
                  </button>
                )}
              </td>
            </tr>
          )}
        </tbody>
      </table>
    </section>
  );
}

function LegendRow({line, all}: {line: LegendLine; all: number}) {
  const canSearch = store.colourBy.value === 'site' || store.colourBy.value === 'category';
  const [, place] = /\(([^()]+:\d+)\)$/.exec(line.label) ?? [];
  const search = () => {
    store.query.value = `"${place ?? line.label}"`;
  };
  return (
    <tr
      class={line.count === 0 ? 'faint' : ''}
      data-menu
      onContextMenu={event => menuAt(event, line.label, legendItems(store.colourBy.value, line.label))}
      title={`${line.label}: ${count(line.bytes)} bytes in ${count(line.count)} (${percent(line.bytes / Math.max(1, all))})`}
    >
      <td>
        <span class="swatch" style={{background: hexOf(line.colour)}} />
      </td>
      <td>{binary(line.bytes)}</td>
      <td>
        {canSearch ? (
          <button type="button" class="plain site" onClick={search}>
            <Label label={line.label} />
          </button>
        ) : (
          <Label label={line.label} />
        )}
      </td>
    </tr>
  );
}

/** A label that gives way before the file and the line at its end. */
function Label({label}: {label: string}) {
  const end = /[^/\\(]+:\d+\)?$/.exec(label)?.index ?? label.length;
  return (
    <span class="label">
      <span>{label.slice(0, end)}</span>
      <span>{label.slice(end)}</span>
    </span>
  );
}

function legendText(moment: MomentTotals, legend: LegendLine[]): string {
  const lines = legend.map(
    line => `${count(line.bytes).padStart(16)}  ${count(line.count).padStart(8)}  ${line.label}`,
  );
  return [`after entry ${moment.entry}: ${count(moment.bytes)} bytes`, ...lines].join('\n');
}
