/** What all pictures of ranks share: the stretch of the axis that is seen, and the place that is pointed at. */

import {signal} from '@preact/signals';
import type {AxisRange} from '../../model/axis';
import {within} from '../../model/axis';

/** The stretch; `null` for the whole. */
export const stretch = signal<AxisRange | null>(null);

/** The place. */
export const pointed = signal<number | null>(null);

/** The least part of the axis that is shown. */
const LEAST = 1 / 1000;

/** A stretch zoomed about a place by a wheel. */
export function zoomedBy(whole: AxisRange, about: number, factor: number): AxisRange | null {
  const seen = stretch.peek() ?? whole;
  const most = whole.to - whole.from;
  const span = Math.max((seen.to - seen.from) * factor, most * LEAST);
  if (span >= most) return null;
  const from = about - ((about - seen.from) / (seen.to - seen.from)) * span;
  return within({from, to: from + span}, whole);
}

/** Zooms where a wheel is turned with Ctrl, as a pinch does; moves sideways without. */
export function onWheel(event: WheelEvent, whole: AxisRange, place: number): void {
  const seen = stretch.peek() ?? whole;
  if (event.ctrlKey || event.metaKey) {
    event.preventDefault();
    stretch.value = zoomedBy(whole, place, Math.exp(event.deltaY / 200));
  } else if (event.deltaX !== 0 && stretch.peek()) {
    event.preventDefault();
    const by = (event.deltaX / 600) * (seen.to - seen.from);
    stretch.value = within({from: seen.from + by, to: seen.to + by}, whole);
  }
}
