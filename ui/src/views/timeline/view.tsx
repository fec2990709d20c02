/** The timeline: active memory over the entries or over time, one band an allocation. */

import {effect, signal, useSignal, useSignalEffect} from '@preact/signals';
import {useEffect, useRef} from 'preact/hooks';
import {Problem} from '../../data/source';
import {type Axis, type AxisKind, entryAxis, timeAxis} from '../../model/axis';
import {engine, type Opened, opened, problem, shownEntry} from '../../state/session';
import * as store from '../../state/store';
import {addCommands, type CommandGroup} from '../../ui/keys';
import {registerPicture} from '../../ui/save';
import type {RowDetails} from '../../worker/details';
import {type Hit, TimelineChart} from './chart';
import {listen, panBy, showEntries, zoomAbout, zoomBytes} from './gestures';
import {namesAt} from './lanes';
import {TimelineToolbar} from './toolbar';
import {Tooltip, type TooltipState} from './tooltip';
import {positionOfCss} from './viewport';

/** The chart that is on the page, for commands from elsewhere. */
export const chart = signal<TimelineChart | null>(null);

/** The whole view. */
export function TimelineView({device}: {device: Opened}) {
  const host = useRef<HTMLDivElement>(null);
  const axis = useSignal<Axis | null>(null);
  const tooltip = useSignal<TooltipState | null>(null);

  useSignalEffect(() => {
    const kind = store.axis.value;
    if (opened.value !== device) return;
    axisOf(device, kind).then(
      made => {
        axis.value = made;
      },
      error => {
        problem.value = Problem.from(error);
      },
    );
  });

  useEffect(() => {
    if (!host.current || !axis.value) return;
    const element = host.current;
    const made = new TimelineChart(element, device, axis.value);
    const hovering = hoverer(made, device, tooltip);
    const stopListening = listen(element, made, {
      onHover: hovering.hover,
      onClick: hit => pin(hit),
      onDoubleClick: hit => void fitRow(made, hit?.row),
    });
    const stopCommands = addCommands(() => commands(made));
    const stopSaving = registerPicture(() => ({canvas: made.toCanvas(), name: 'timeline'}));
    chart.value = made;
    return () => {
      chart.value = null;
      stopSaving();
      stopCommands();
      stopListening();
      hovering.stop();
      made.stop();
    };
  }, [device, axis.value]);

  return (
    <section class="view timeline" aria-label="Active memory timeline">
      <TimelineToolbar device={device} />
      <div
        ref={host}
        class="plot"
        role="img"
        aria-label={`Stacked timeline of ${device.device.rows} allocations; the table of the largest live ones is beside it`}
      />
      {tooltip.value && <Tooltip {...tooltip.value} />}
    </section>
  );
}

async function axisOf(device: Opened, kind: AxisKind): Promise<Axis> {
  if (kind === 'entry' || !device.device.time_us) return entryAxis(device.entries);
  return timeAxis(await engine().times());
}

function pin(hit: Hit | undefined): void {
  if (hit?.row === undefined) {
    store.pinned.value = null;
    if (hit) store.cursor.value = hit.entry;
    return;
  }
  store.pinned.value = hit.row;
  store.cursor.value = hit.entry;
}

/** Shows the life of a lifetime, its band a good part of the height. */
export async function fitRow(made: TimelineChart, row: number | undefined): Promise<void> {
  if (row === undefined) return;
  const details = await engine().describe(row, shownEntry.value);
  const from = details.allocEntry ?? 0;
  const to = details.freeEntry ?? made.device.entries;
  store.pinned.value = row;
  showEntries(made, from, to, 0.25);
  const {belowBytes} = details.at;
  const around = Math.max(details.sizeBytes * 2, 2048);
  const low = Math.max(0, belowBytes - around / 2);
  const isVisible = details.sizeBytes > made.fitY.high / 50;
  store.yRange.value = isVisible ? null : {low, high: low + details.sizeBytes + around};
}

/** Asks about what the pointer is over, one question at a time. */
function hoverer(made: TimelineChart, device: Opened, tooltip: {value: TooltipState | null}) {
  let wanted: {hit: Hit; x: number; y: number} | undefined;
  let isAsking = false;
  let known: {row: number; details: RowDetails} | undefined;
  const show = () => {
    if (!wanted) return;
    const {hit, x, y} = wanted;
    const names = namesAt(device.device, hit.entry);
    const details = known?.row === hit.row ? known?.details : undefined;
    tooltip.value = {x, y, hit, names, ...(details ? {details} : {})};
  };
  const ask = async () => {
    if (isAsking || wanted?.hit.row === undefined || known?.row === wanted.hit.row) return;
    isAsking = true;
    const {row, entry} = wanted.hit;
    try {
      const details = await engine().describe(row!, entry);
      known = {row: row!, details};
    } catch {
      // The file was changed under the pointer: the next move asks again.
    }
    isAsking = false;
    show();
    void ask();
  };
  const stop = effect(() => {
    void store.xRange.value;
    tooltip.value = null;
  });
  return {
    hover(hit: Hit | undefined, event: PointerEvent | undefined) {
      if (!hit || !event) {
        wanted = undefined;
        made.hover = undefined;
        tooltip.value = null;
        return;
      }
      wanted = {hit, x: event.clientX, y: event.clientY};
      made.hover = {row: hit.row, position: made.axis.positionOf(hit.entry)};
      show();
      void ask();
    },
    stop,
  };
}

function commands(made: TimelineChart): CommandGroup {
  const span = () => made.viewport.x.to - made.viewport.x.from;
  const middle = () => {
    const {widthCss} = made.viewport;
    return positionOfCss(made.viewport, widthCss / 2);
  };
  return {
    title: 'Timeline',
    commands: [
      {keys: ['w', 'ArrowUp', '+'], help: 'zoom in', run: () => zoomAbout(made, middle(), 0.7)},
      {keys: ['s', 'ArrowDown', '-'], help: 'zoom out', run: () => zoomAbout(made, middle(), 1 / 0.7)},
      {keys: ['a', 'ArrowLeft'], help: 'move left', run: () => panBy(made, -span() * 0.15)},
      {keys: ['d', 'ArrowRight'], help: 'move right', run: () => panBy(made, span() * 0.15)},
      {keys: ['W'], help: 'zoom in on bytes', run: () => zoomBytes(made, made.viewport.lowBytes, 0.7)},
      {keys: ['S'], help: 'zoom out of bytes', run: () => zoomBytes(made, made.viewport.lowBytes, 1 / 0.7)},
      {keys: ['f'], help: 'fit the pinned allocation, or the selection', run: () => fitChosen(made)},
      {
        keys: ['0'],
        help: 'show everything',
        run: () => {
          store.xRange.value = null;
          store.yRange.value = null;
        },
      },
      {keys: ['p'], help: 'go to the peak', run: () => goTo(made, made.device.peakEntry)},
      {keys: ['o'], help: 'go to the next out-of-memory error', run: () => nextMark(made)},
      {keys: [']'], help: 'next iteration, phase or scope', run: () => stepBoundary(made, 1)},
      {keys: ['['], help: 'previous iteration, phase or scope', run: () => stepBoundary(made, -1)},
      {keys: ['r'], help: 'select what is visible', run: () => selectVisible(made)},
      {
        keys: ['t'],
        help: 'x axis by entry or by time',
        run: () => switchAxis(made.device),
      },
    ],
  };
}

/** Changes the x axis; the visible stretch is of the other axis, so all is shown. */
export function switchAxis(device: Opened): void {
  if (!device.device.time_us) return;
  store.xRange.value = null;
  store.axis.value = store.axis.value === 'entry' ? 'time' : 'entry';
}

function fitChosen(made: TimelineChart): void {
  if (store.pinned.value !== null) void fitRow(made, store.pinned.value);
  else if (store.selection.value) showEntries(made, store.selection.value.from, store.selection.value.to, 0.05);
}

function goTo(made: TimelineChart, entry: number): void {
  store.cursor.value = entry;
  const {from, to} = made.viewport.x;
  const position = made.axis.positionOf(entry);
  if (position < from || position > to) panBy(made, position - (from + to) / 2);
}

function nextMark(made: TimelineChart): void {
  const errors = made.device.device.marks.filter(({kind}) => kind === 'oom');
  const next = errors.find(({entry}) => entry > (store.cursor.value ?? -1)) ?? errors[0];
  if (next) goTo(made, next.entry);
}

function stepBoundary(made: TimelineChart, step: 1 | -1): void {
  const {iterations, scopes} = made.device.device;
  const starts = [...iterations, ...iterations.flatMap(({phases}) => phases), ...scopes].map(({start}) => start);
  starts.sort((a, b) => a - b);
  const at = shownEntry.value;
  const next = step === 1 ? starts.find(entry => entry > at) : starts.findLast(entry => entry < at);
  if (next !== undefined) goTo(made, next);
}

function selectVisible(made: TimelineChart): void {
  const {x} = made.viewport;
  const from = Math.min(made.axis.entryAt(x.from), made.device.entries - 1);
  store.selection.value = {from, to: Math.max(from + 1, made.axis.entryAt(x.to))};
}
