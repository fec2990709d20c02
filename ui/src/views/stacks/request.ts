/** What the views of stacks ask for: the choices of the page as a request. */

import {FOLDS} from '../../model/stack-shape';
import {WEIGHINGS, type Weighing} from '../../model/weighing';
import {type Opened, shownEntry} from '../../state/session';
import * as store from '../../state/store';
import type {FlameRequest} from '../../worker/flame';
import type {ChartRequest} from '../../worker/flame-chart';

/** What each weighing is called. */
export function weighingWords(device: Opened): Record<Weighing, string> {
  return {
    live: store.cursor.value === null ? 'active at the peak' : 'active at the cursor',
    highest: 'active at the highest moment',
    allocated: 'allocated',
    kept: 'allocated and kept',
    'byte-time': device.device.time_us ? 'bytes × seconds' : 'bytes × entries',
  };
}

/** In which order the boxes lie. */
export const ORDERS = ['callers', 'inverted', 'time'] as const;

/** One of `ORDERS`. */
export type Order = (typeof ORDERS)[number];

/** What can be shown over time. */
export const CHART_WEIGHINGS = ['allocated', 'kept'] as const satisfies readonly Weighing[];

/** What is shown over time: of the other weighings there is no order. */
export function chartWeighing(): Weighing {
  return store.viewOption('stacks.of', WEIGHINGS) === 'kept' ? 'kept' : 'allocated';
}

/** The present choices of a chart over time. */
export function chartRequest(device: Opened): ChartRequest {
  const isTimed = device.device.time_us !== undefined && device.device.time_us !== null;
  return {
    ...flameRequest(),
    of: chartWeighing(),
    entry: 0,
    selected: store.selection.value,
    visible: null,
    over: isTimed ? store.axis.value : 'entry',
    window: store.xRange.value,
  };
}

/** The present choices. Reads signals, so that what asks follows them. */
export function flameRequest(): FlameRequest {
  const of = store.viewOption('stacks.of', WEIGHINGS);
  const isOfMoment = of === 'live';
  const selected = isOfMoment ? null : store.selection.value;
  return {
    of,
    entry: isOfMoment ? shownEntry.value : 0,
    selected,
    visible: isOfMoment || selected ? null : store.xRange.value,
    axis: isOfMoment || selected ? 'entry' : store.axis.value,
    fold: store.viewOption('stacks.frames', FOLDS),
    collapses: store.viewOption('stacks.recursion', ['shown', 'collapsed']) === 'collapsed',
    isInverted: store.viewOption('stacks.order', ORDERS) === 'inverted',
    without: numbersOption('stacks.without'),
  };
}

/** A number that a view remembers, or `null`. */
export function numberOption(name: string): number | null {
  const text = store.options.value[name];
  return text !== undefined && /^\d{1,9}$/.test(text) ? Number(text) : null;
}

/** Numbers that a view remembers. */
export function numbersOption(name: string): number[] {
  const text = store.options.value[name] ?? '';
  return /^\d{1,9}(\.\d{1,9})*$/.test(text) ? text.split('.').map(Number) : [];
}

/** Forgets what a view remembers. */
export function clearOption(name: string): void {
  const {[name]: _, ...rest} = store.options.value;
  store.options.value = rest;
}
