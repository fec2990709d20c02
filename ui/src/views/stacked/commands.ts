/** What the keyboard does on a stacked picture. */

import {positionOfCss} from '../../draw/viewport';
import {tell} from '../../kit/copy';
import {addCommands} from '../../kit/keys';
import {reveal, shownEntry, switchAxis} from '../../state/session';
import * as store from '../../state/store';
import type {StackedChart} from './chart';
import {GESTURES, panBy, showEntries, zoomAbout, zoomBytes} from './gestures';
import {mark, markAt} from './mark';

/** Adds the commands of a chart. `fit` shows what is pinned, `menu` says what can be done with it, where there is one. Gives what takes them away. */
export function addChartCommands(
  title: string,
  chart: StackedChart,
  {fit, menu}: {fit: () => void; menu: (() => void) | undefined},
): () => void {
  const span = () => chart.viewport.x.to - chart.viewport.x.from;
  const middle = () => positionOfCss(chart.viewport, chart.viewport.widthCss / 2);
  const zoom = (factor: number) => () => zoomAbout(chart, middle(), factor);
  const zoomUp = (factor: number) => () => zoomBytes(chart, chart.viewport.lowBytes, factor);
  const measure = () => {
    markAt(chart.entryAtPointer ?? shownEntry.value);
    if (mark.value !== null) tell('press m again at the other end to measure the range');
  };
  const unmark = {
    keys: ['Escape'],
    help: 'remove the mark',
    run: () => {
      mark.value = null;
    },
  };
  const commands = [
    {keys: ['w', 'ArrowUp', '+'], help: 'zoom in', run: zoom(0.7)},
    {keys: ['s', 'ArrowDown', '-'], help: 'zoom out', run: zoom(1 / 0.7)},
    {keys: ['a', 'ArrowLeft'], help: 'move left', run: () => panBy(chart, -span() * 0.15)},
    {keys: ['d', 'ArrowRight'], help: 'move right', run: () => panBy(chart, span() * 0.15)},
    {keys: ['W'], help: 'zoom bytes in', run: zoomUp(0.7)},
    {keys: ['S'], help: 'zoom bytes out', run: zoomUp(1 / 0.7)},
    {keys: ['f'], help: 'fit the pinned row, or the selection', run: fit},
    {keys: ['0'], help: 'show everything', run: showAll},
    ...(menu ? [{keys: ['ContextMenu'], help: 'menu of the pinned row', run: menu}] : []),
    {keys: ['p'], help: 'go to the peak', run: () => reveal(chart.device.peakEntry)},
    {keys: ['o'], help: 'go to the next out-of-memory error', run: () => goToNextError(chart)},
    {keys: [']'], help: 'next iteration, phase or scope', run: () => goToBoundary(chart, 1)},
    {keys: ['['], help: 'previous iteration, phase or scope', run: () => goToBoundary(chart, -1)},
    {keys: ['m'], help: 'mark one end of a range, then the other, to measure it', run: measure},
    {keys: ['r'], help: 'select the visible range', run: () => selectVisible(chart)},
    {keys: ['t'], help: 'entries or time on the x axis', run: () => void switchAxis(chart.device)},
  ];
  const end = addCommands(() => ({
    title,
    gestures: menu ? [...GESTURES, {hands: 'right click', help: 'copy, search, stacks of it'}] : GESTURES,
    commands: mark.value === null ? commands : [unmark, ...commands],
  }));
  return () => {
    mark.value = null;
    end();
  };
}

function showAll(): void {
  store.xRange.value = null;
  store.yRange.value = null;
}

/** Shows the selected stretch. */
export function showSelection(chart: StackedChart): void {
  if (store.selection.value) showEntries(chart, store.selection.value.from, store.selection.value.to, 0.05);
}

function goToNextError(chart: StackedChart): void {
  const errors = chart.device.device.marks.filter(({kind}) => kind === 'oom');
  const next = errors.find(({entry}) => entry > (store.cursor.value ?? -1)) ?? errors[0];
  if (next) reveal(next.entry);
}

function goToBoundary(chart: StackedChart, step: 1 | -1): void {
  const {iterations, scopes} = chart.device.device;
  const starts = [...iterations, ...iterations.flatMap(({phases}) => phases), ...scopes].map(({start}) => start);
  starts.sort((a, b) => a - b);
  const at = shownEntry.value;
  const next = step === 1 ? starts.find(entry => entry > at) : starts.findLast(entry => entry < at);
  if (next !== undefined) reveal(next);
}

function selectVisible(chart: StackedChart): void {
  const {x} = chart.viewport;
  const from = Math.min(chart.axis.entryAt(x.from), chart.device.entries - 1);
  store.selection.value = {from, to: Math.max(from + 1, chart.axis.entryAt(x.to))};
}
