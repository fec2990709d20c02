/**
 * The boxes of a flame graph, drawn: only those in view, those below half a pixel merged, words only where they fit.
 *
 * Two spaces: weights (what the layout counts) from left to right, and CSS pixels.
 */

import type {BoxPen} from '../../draw/svg-pen';
import type {FlameLayout} from '../../model/flame-layout';
import {count} from '../../model/units';

/** The height of a level, in CSS pixels. */
export const ROW_CSS = 19;
const FONT = '11px system-ui, sans-serif';
/** So narrow a box cannot be seen: it is not even looked at. */
const MERGED_CSS = 0.5;
/** Narrower boxes have no words. */
const WORDS_CSS = 24;

/** Which part is seen. */
export interface FlameWindow {
  readonly widthCss: number;
  readonly heightCss: number;
  /** Weights at the left and the right edge. */
  readonly from: number;
  readonly to: number;
  /** How far it is scrolled away from the root. */
  readonly scrollCss: number;
  /** `down`: the root is on top. */
  readonly grows: 'down' | 'up';
  /** Neighbours of one caller that are narrower are drawn as one. */
  readonly smallCss: number;
}

/** What a box looks like and says, by its key. */
export interface BoxLooks {
  label(key: number): string;
  colour(key: number): string;
  /** Whether it is among what is looked for; undefined where nothing is. */
  matches: ((key: number) => boolean) | undefined;
  /** What stands at the right of a wide box. */
  amount(box: number): string;
}

/** Colours of the theme. */
export interface FlameInk {
  readonly text: string;
  readonly faint: string;
  readonly merged: string;
  readonly match: string;
  readonly onMatch: string;
  readonly accent: string;
}

/** The upper edge of a level. */
export function topOf(window: FlameWindow, level: number): number {
  const along = level * ROW_CSS - window.scrollCss;
  return window.grows === 'down' ? along : window.heightCss - along - ROW_CSS;
}

/** The level at a height. */
export function levelAt(window: FlameWindow, y: number): number {
  const along = window.grows === 'down' ? y : window.heightCss - y;
  return Math.floor((along + window.scrollCss) / ROW_CSS);
}

/** Draws. `chosen` is outlined; -1 for none. */
export function drawFlame(
  pen: BoxPen,
  layout: FlameLayout,
  looks: BoxLooks,
  window: FlameWindow,
  ink: FlameInk,
  chosen: number,
): void {
  pen.font = FONT;
  pen.textBaseline = 'middle';
  const {levelFrom} = layout;
  const first = Math.max(0, Math.floor(window.scrollCss / ROW_CSS));
  const last = Math.min(levelFrom.length - 2, Math.floor((window.scrollCss + window.heightCss) / ROW_CSS));
  for (let level = first; level <= last; level++) drawLevel(pen, layout, looks, window, ink, level, chosen);
}

function drawLevel(
  pen: BoxPen,
  layout: FlameLayout,
  looks: BoxLooks,
  window: FlameWindow,
  ink: FlameInk,
  level: number,
  chosen: number,
): void {
  const {left, total, levelFrom} = layout;
  const end = levelFrom[level + 1];
  const scale = window.widthCss / (window.to - window.from);
  const top = topOf(window, level);
  let box = firstEndingAfter(layout, window.from, levelFrom[level], end);
  while (box < end && left[box] < window.to) {
    const x = Math.max(0, (left[box] - window.from) * scale);
    const right = Math.min(window.widthCss, (left[box] + total[box] - window.from) * scale);
    if (right - x < window.smallCss) {
      const next = endOfSmall(layout, window, scale, box, end);
      if (next > box + 1 || right - x < MERGED_CSS) {
        const last = left[next - 1] + total[next - 1];
        const until = Math.min(window.widthCss, (last - window.from) * scale);
        drawSmall(pen, ink, next - box, {x, top, width: Math.max(MERGED_CSS, until - x)});
        box = next;
        continue;
      }
    }
    drawBox(pen, layout, looks, window, ink, box, {x, top, width: right - x}, box === chosen);
    box++;
  }
}

/** The first box after some that are narrow and have one caller, or narrow callers; `box` is the first of them. */
function endOfSmall(layout: FlameLayout, window: FlameWindow, scale: number, box: number, end: number): number {
  const {left, total, parent} = layout;
  const isSmall = (one: number) => total[one] * scale < window.smallCss;
  const isApart = (one: number) => (left[one] - left[one - 1] - total[one - 1]) * scale > window.smallCss;
  const isBelowSmall = isSmall(parent[box]);
  const siblingsEnd = (one: number) => (isBelowSmall ? end : firstWithParent(layout, parent[one] + 1, one, end));
  let next = box + 1;
  while (next < end && left[next] < window.to && isSmall(next) && !isApart(next)) {
    if (parent[next] !== parent[box] && !(isBelowSmall && isSmall(parent[next]))) break;
    // Of those that cannot be seen there may be millions: on to the next half pixel.
    const until = left[next] + MERGED_CSS / scale;
    if (total[next] * scale >= MERGED_CSS) next++;
    else next = Math.max(next + 1, firstEndingAfter(layout, until, next, siblingsEnd(next)));
  }
  return next;
}

function drawSmall(
  pen: BoxPen,
  ink: FlameInk,
  boxes: number,
  {x, top, width}: {x: number; top: number; width: number},
): void {
  pen.fillStyle = ink.merged;
  pen.fillRect(x, top, width > 3 ? width - 1 : width, ROW_CSS - 1);
  if (width < WORDS_CSS) return;
  const words = `… ${count(boxes)} smaller`;
  const wide = pen.measureText(words).width;
  pen.fillStyle = ink.faint;
  pen.textAlign = 'left';
  pen.fillText(wide <= width - 9 ? words : cut(pen, words, wide, width - 9), x + 4, top + ROW_CSS / 2);
}

function drawBox(
  pen: BoxPen,
  layout: FlameLayout,
  looks: BoxLooks,
  window: FlameWindow,
  ink: FlameInk,
  box: number,
  place: {x: number; top: number; width: number},
  isChosen: boolean,
): void {
  const {x, top, width} = place;
  const key = layout.key[box];
  const isMatch = looks.matches?.(key) ?? false;
  // Above what is zoomed into lie its callers, which are wider than they are drawn.
  const isCut = layout.left[box] < window.from || layout.left[box] + layout.total[box] > window.to;
  pen.globalAlpha = (looks.matches && !isMatch) || (isCut && !isMatch) ? 0.45 : 1;
  pen.fillStyle = isMatch ? ink.match : looks.colour(key);
  // A line of background between neighbours, where it takes little of them.
  pen.fillRect(x, top, width > 3 ? width - 1 : width, ROW_CSS - 1);
  pen.globalAlpha = 1;
  if (isChosen) {
    pen.strokeStyle = ink.accent;
    pen.lineWidth = 2;
    pen.strokeRect(x + 1, top + 1, Math.max(1, width - 3), ROW_CSS - 3);
  }
  if (width < WORDS_CSS) return;
  const room = width - 9;
  const words = looks.label(key);
  const wide = pen.measureText(words).width;
  pen.fillStyle = isMatch ? ink.onMatch : ink.text;
  pen.textAlign = 'left';
  pen.fillText(wide <= room ? words : cut(pen, words, wide, room), x + 4, top + ROW_CSS / 2);
  const amount = looks.amount(box);
  if (wide + amount.length * 7 + 24 > room) return;
  pen.textAlign = 'right';
  pen.fillText(amount, x + width - 6, top + ROW_CSS / 2);
}

/** The beginning of a text that fits; `wide` is the width of all of it. */
function cut(pen: BoxPen, text: string, wide: number, room: number): string {
  let length = Math.floor((text.length * room) / wide);
  let shown = `${text.slice(0, length)}…`;
  // Letters differ in width: the guess can be too long by some.
  while (length > 0 && pen.measureText(shown).width > room) shown = `${text.slice(0, --length)}…`;
  return shown;
}

/** The first box whose parent is at least some box; `end` if there is none. */
function firstWithParent({parent}: FlameLayout, wanted: number, from: number, end: number): number {
  let low = from;
  let high = end;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (parent[middle] < wanted) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** The first box of a level that ends after a position; `end` if there is none. */
function firstEndingAfter({left, total}: FlameLayout, position: number, from: number, end: number): number {
  let low = from;
  let high = end;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (left[middle] + total[middle] <= position) low = middle + 1;
    else high = middle;
  }
  return low;
}
