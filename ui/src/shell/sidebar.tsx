/** The panel at the right: the pinned allocation, the selected stretch, and what is there at the cursor. */

import {useSignal, useSignalEffect} from '@preact/signals';
import {useMemo, useRef} from 'preact/hooks';
import {interesting, lifeOf, rankOf} from '../kit/allocation';
import {copyText} from '../kit/copy';
import {FactList} from '../kit/fact-list';
import {FrameLink} from '../kit/frame-menu';
import {OutsideLegend} from '../kit/outside';
import {Splitter, usePanelWidth} from '../kit/splitter';
import {fullFrame} from '../model/frames';
import {latest, READING_MS} from '../model/latest';
import {address, binary, count, counted, exact} from '../model/units';
import {engine, type Opened, opened, pictured, shownEntry} from '../state/session';
import * as store from '../state/store';
import {SegmentLegend} from '../views/segments/legend';
import {MeasuredStretch, MeasureHint} from '../views/stacked/measured';
import type {MomentTotals, RowDetails} from '../worker/details';
import type {LegendLine} from '../worker/grouping';
import {LegendTable} from './legend';
import {OutOfMemory} from './out-of-memory';

export function Sidebar({device}: {device: Opened}) {
  const panel = usePanelWidth('panel', innerWidth < 1400 ? 320 : 380, 200);
  return (
    <>
      <Splitter panel={panel} side="right" label="Width of the panel" />
      <aside aria-label="Details" style={{'--width': `${panel.width.value}px`}}>
        <Pinned device={device} />
        <MeasuredStretch device={device} />
        <OutOfMemory device={device} />
        {store.view.value === 'segments' ? <SegmentLegend device={device} /> : <Moment device={device} />}
        {device.device.outside && store.view.value !== 'stacks' && (
          // Another file has other owners: an answer about the last one's would be read by them.
          <OutsideMoment key={device.generation} device={device} />
        )}
        <MeasureHint />
      </aside>
    </>
  );
}

/**
 * A value of the worker that follows the signals of `question`, at a pace that can be read: while the cursor is dragged there are more
 * places than answers. The old value stays until the new one is there; without a question there is none.
 */
function useAnswer<Q extends object, T>(device: Opened, question: () => Q | null, ask: (question: Q) => Promise<T>) {
  const answer = useSignal<T | null>(null);
  const newest = useRef<Q | null>(null);
  const follow = useMemo(() => {
    const settle = (value: T | null) => {
      if (newest.current && opened.peek() === device) answer.value = value;
    };
    return latest((asked: Q) => ask(asked).catch(() => null), settle, READING_MS);
  }, [device]);
  useSignalEffect(() => {
    if (opened.value !== device) return;
    newest.current = question();
    if (newest.current) follow(newest.current);
    else answer.value = null;
  });
  return answer;
}

function Pinned({device}: {device: Opened}) {
  const answer = useAnswer(
    device,
    () => {
      const row = store.pinned.value;
      return row === null || row >= device.device.rows ? null : {row, entry: shownEntry.value};
    },
    ({row, entry}) => engine().describe(row, entry),
  );
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
      <FactList facts={factsOf(details)} />
      <div class="actions">
        <button type="button" onClick={() => showState(details.allocEntry ?? 0)}>
          state when allocated
        </button>
        <button
          type="button"
          disabled={details.freeEntry === undefined}
          onClick={() => showState(details.freeEntry ?? 0)}
        >
          state when freed
        </button>
        <button type="button" title="Search for its call site" onClick={() => (store.query.value = siteQuery(details))}>
          all of this call site
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
  facts.push([`at entry ${count(details.at.entry)}`, rankOf(details)]);
  return facts;
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
  const totals = useAnswer(
    device,
    () => ({entry: shownEntry.value}),
    ({entry}) => engine().moment(entry),
  );
  const answer = useAnswer(
    device,
    () => {
      const [by, entry] = [store.colourBy.value, shownEntry.value];
      return pictured.value === device ? {by, entry} : null;
    },
    ({by, entry}) => engine().legend(by, entry),
  );
  const moment = totals.value;
  if (!moment || !answer.value) return null;
  const {lines: legend} = answer.value;
  // A profile of the driver alone has no blocks: the list of owners follows.
  const hasBlocks = device.device.rows > 0 || !device.device.outside;
  return (
    <section class="moment">
      <h2>
        {store.cursor.value === null ? 'At the peak' : `After entry ${count(moment.entry)}`}
        <span class="spring" />
        {hasBlocks && (
          <button type="button" class="plain" title="Copy as text" onClick={() => copyText(legendText(moment, legend))}>
            copy
          </button>
        )}
        {store.cursor.value !== null && (
          <button type="button" class="plain" title="Back to the peak" onClick={() => (store.cursor.value = null)}>
            peak
          </button>
        )}
      </h2>
      {hasBlocks && (
        <>
          <div class="total">
            <b title={`${count(moment.bytes)} bytes`}>{binary(moment.bytes)}</b>{' '}
            {device.device.measure === 'active_bytes' ? 'active' : 'requested'} in {counted(moment.count, 'block')}
            {device.reservedMaxBytes > 0 && (
              <>
                <br />
                {binary(moment.reservedBytes)} reserved
              </>
            )}
          </div>
          <LegendTable legend={answer.value} all={moment.bytes} />
        </>
      )}
    </section>
  );
}

function OutsideMoment({device}: {device: Opened}) {
  const totals = useAnswer(
    device,
    () => ({entry: shownEntry.value}),
    ({entry}) => engine().moment(entry),
  );
  const moment = totals.value;
  if (!moment) return null;
  return <OutsideLegend device={device} bytes={moment.outsideBytes} reservedBytes={moment.reservedBytes} />;
}

function legendText(moment: MomentTotals, legend: LegendLine[]): string {
  const lines = legend.map(
    line => `${count(line.bytes).padStart(16)}  ${count(line.count).padStart(8)}  ${line.label}`,
  );
  return [`after entry ${moment.entry}: ${count(moment.bytes)} bytes`, ...lines].join('\n');
}
