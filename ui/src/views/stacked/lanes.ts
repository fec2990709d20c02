/** Strips of named stretches above the plot: iterations with their phases, and annotated scopes. */

import type {DeviceManifest, Span} from '../../data/manifest';
import {FONT, type Ink, type Pen} from '../../draw/overlay';
import {textWidth} from '../../draw/text-width';
import {cssOfPosition, type Viewport} from '../../draw/viewport';

/** The height of a strip. */
export const LANE_CSS = 16;
/** Scopes that lie deeper are not shown: they are in the tooltip. */
const DEPTH_MAX = 3;
/** Stretches narrower than this are drawn without their name. */
const NAME_CSS = 28;

/** The strips of a device, uppermost first. */
export function lanes(device: DeviceManifest): Span[][] {
  const strips: Span[][] = [];
  if (device.iterations.length > 0) {
    strips.push(device.iterations.map(({start, end}, i) => ({start, end, name: `iteration ${i}`})));
    const phases = device.iterations.flatMap(iteration => iteration.phases);
    if (phases.length > 0) strips.push(phases);
  }
  for (let depth = 0; depth < DEPTH_MAX; depth++) {
    const strip = device.scopes.filter(scope => scope.depth === depth);
    if (strip.length > 0) strips.push(strip);
  }
  return strips;
}

const known = new WeakMap<DeviceManifest, Span[][]>();

function lanesOnce(device: DeviceManifest): Span[][] {
  const made = known.get(device) ?? lanes(device);
  known.set(device, made);
  return made;
}

/** How many strips a device has. */
export function laneCount(device: DeviceManifest): number {
  return lanesOnce(device).length;
}

/** The names of the stretches that an entry lies in, outermost first. */
export function namesAt(device: DeviceManifest, entry: number): string[] {
  const strips = [...lanesOnce(device).slice(0, 2), device.scopes];
  const spans = device.iterations.length > 0 ? strips.flat() : device.scopes;
  const names = spans.filter(({start, end}) => start <= entry && entry < end).map(({name}) => name);
  return [...new Set(names)];
}

/** Draws the strips from the origin down. */
export function drawLanes(
  pen: Pen,
  viewport: Viewport,
  ink: Ink,
  device: DeviceManifest,
  positionOf: (entry: number) => number,
): void {
  pen.font = FONT;
  pen.textAlign = 'left';
  pen.textBaseline = 'middle';
  for (const [i, strip] of lanesOnce(device).entries()) {
    const top = i * LANE_CSS;
    // Stretches below a pixel are drawn as one.
    let drawnTo = Number.NEGATIVE_INFINITY;
    for (let n = firstEndingAfter(strip, positionOf, viewport.x.from); n < strip.length; n++) {
      const {start, end, name} = strip[n];
      if (positionOf(start) > viewport.x.to) break;
      const left = Math.max(cssOfPosition(viewport, positionOf(start)), -1);
      const right = Math.min(cssOfPosition(viewport, positionOf(end)), viewport.widthCss + 1);
      if (right < drawnTo + 0.5) continue;
      drawnTo = Math.max(right, left + 1);
      pen.fillStyle = n % 2 === 0 ? ink.grid : ink.faint;
      pen.globalAlpha = n % 2 === 0 ? 0.6 : 0.25;
      pen.fillRect(left, top, Math.max(1, right - left - 1), LANE_CSS - 2);
      pen.globalAlpha = 1;
      if (right - left < NAME_CSS) continue;
      pen.fillStyle = ink.text;
      const text = fitted(pen, name, right - left - 8);
      if (text) pen.fillText(text, left + 4, top + LANE_CSS / 2 - 1);
    }
  }
}

/** The first stretch of a strip that ends after a position: those of a strip follow each other. */
function firstEndingAfter(strip: readonly Span[], positionOf: (entry: number) => number, position: number): number {
  let low = 0;
  let high = strip.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (positionOf(strip[middle].end) < position) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** A text cut to a width; empty if not even three letters fit. */
export function fitted(pen: Pen, text: string, widthCss: number): string {
  if (textWidth(pen, text) <= widthCss) return text;
  let low = 0;
  let high = text.length;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (textWidth(pen, `${text.slice(0, middle)}…`) <= widthCss) low = middle;
    else high = middle - 1;
  }
  return low >= 3 ? `${text.slice(0, low)}…` : '';
}
