/** What the views of stacks ask for: the choices of the page as a request. */

import {FOLDS} from '../../model/stack-shape';
import {WEIGHINGS, type Weighing} from '../../model/weighing';
import {type Opened, shownEntry} from '../../state/session';
import * as store from '../../state/store';
import type {FlameRequest} from '../../worker/flame';

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
    isInverted: store.viewOption('stacks.order', ['callers', 'inverted']) === 'inverted',
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
