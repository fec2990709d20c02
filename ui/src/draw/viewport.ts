/**
 * Where things are on a stacked picture.
 *
 * Three spaces: data (positions on the x axis, bytes on the y axis), CSS pixels from the chart's upper left corner, and
 * device pixels, which pictures have. Functions are named by the space that they give.
 */

import {type AxisRange, within} from '../model/axis';

/** The chart's plot area, in CSS pixels, and what it shows. */
export interface Viewport {
  readonly widthCss: number;
  readonly heightCss: number;
  readonly x: AxisRange;
  readonly lowBytes: number;
  readonly highBytes: number;
}

/** The smallest stretch that can be shown: ten entries over the whole width. */
export const SPAN_MIN = {entry: 10, time: 10};

export function cssOfPosition(viewport: Viewport, position: number): number {
  return ((position - viewport.x.from) / (viewport.x.to - viewport.x.from)) * viewport.widthCss;
}

export function positionOfCss(viewport: Viewport, x: number): number {
  return viewport.x.from + (x / viewport.widthCss) * (viewport.x.to - viewport.x.from);
}

export function cssOfBytes(viewport: Viewport, bytes: number): number {
  const {lowBytes, highBytes, heightCss} = viewport;
  return heightCss - ((bytes - lowBytes) / (highBytes - lowBytes)) * heightCss;
}

export function bytesOfCss(viewport: Viewport, y: number): number {
  const {lowBytes, highBytes, heightCss} = viewport;
  return lowBytes + ((heightCss - y) / heightCss) * (highBytes - lowBytes);
}

/** A range zoomed by a factor about a position that stays where it is, within the whole; `null` for the whole. */
export function zoomed(
  range: AxisRange,
  whole: AxisRange,
  about: number,
  factor: number,
  axis: 'entry' | 'time',
): AxisRange | null {
  const most = whole.to - whole.from;
  const span = Math.max((range.to - range.from) * factor, Math.min(SPAN_MIN[axis], most));
  if (span >= most) return null;
  const from = about - ((about - range.from) / (range.to - range.from)) * span;
  return within({from, to: from + span}, whole);
}
