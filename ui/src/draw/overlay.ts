/** What is drawn over the picture: axes, lines, marks, the selection, and the band under the pointer. */

import {ticks} from 'd3-array';
import type {Mark} from '../data/manifest';
import {ID_MASK} from '../model/column-ids';
import {byteLabels, byteTicks, count, duration} from '../model/units';
import type {StackedPicture} from '../worker/pictures';
import {textWidth} from './text-width';
import {cssOfBytes, cssOfPosition, type Viewport} from './viewport';

/** Colours of the theme, from its style sheet. */
export interface Ink {
  readonly text: string;
  readonly faint: string;
  readonly grid: string;
  readonly reserved: string;
  readonly capacity: string;
  readonly danger: string;
  readonly accent: string;
  /** What the picture lies on. */
  readonly background: string;
}

/** The drawing commands that are used: a canvas, or what records them. */
export type Pen = Pick<
  CanvasRenderingContext2D,
  | 'beginPath'
  | 'moveTo'
  | 'lineTo'
  | 'closePath'
  | 'stroke'
  | 'fill'
  | 'fillRect'
  | 'strokeRect'
  | 'fillText'
  | 'measureText'
  | 'setLineDash'
  | 'save'
  | 'restore'
> & {
  fillStyle: unknown;
  strokeStyle: unknown;
  lineWidth: number;
  font: string;
  textAlign: CanvasTextAlign;
  textBaseline: CanvasTextBaseline;
  globalAlpha: number;
};

export const FONT = '11px system-ui, sans-serif';

/** The bytes at the left. `right` is the axis's edge. */
export function drawByteAxis(pen: Pen, viewport: Viewport, ink: Ink, right: number, top: number): void {
  pen.font = FONT;
  pen.textAlign = 'right';
  pen.textBaseline = 'middle';
  const ticks = byteTicks(viewport.lowBytes, viewport.highBytes, viewport.heightCss / 48);
  const labels = byteLabels(ticks);
  for (const [i, bytes] of ticks.entries()) {
    const y = Math.round(top + cssOfBytes(viewport, bytes)) + 0.5;
    pen.fillStyle = ink.faint;
    pen.fillText(labels[i], right - 6, y);
    pen.strokeStyle = ink.faint;
    // Through the picture, so faint that it hides nothing.
    pen.globalAlpha = 0.25;
    pen.beginPath();
    pen.moveTo(right - 3, y);
    pen.lineTo(right + viewport.widthCss, y);
    pen.stroke();
    pen.globalAlpha = 1;
  }
}

/** The positions below. */
export function drawPositionAxis(
  pen: Pen,
  viewport: Viewport,
  ink: Ink,
  left: number,
  y: number,
  kind: 'entry' | 'time',
): void {
  pen.font = FONT;
  pen.textAlign = 'center';
  pen.textBaseline = 'top';
  for (const position of ticks(viewport.x.from, viewport.x.to, Math.max(2, Math.floor(viewport.widthCss / 120)))) {
    if (kind === 'entry' && !Number.isInteger(position)) continue;
    const x = Math.round(left + cssOfPosition(viewport, position)) + 0.5;
    pen.strokeStyle = ink.grid;
    pen.beginPath();
    pen.moveTo(x, y);
    pen.lineTo(x, y + 4);
    pen.stroke();
    pen.fillStyle = ink.faint;
    const words = kind === 'entry' ? count(position) : duration(position);
    // The last one may lie at the picture's very edge.
    const most = left + viewport.widthCss - textWidth(pen, words) / 2;
    pen.fillText(words, Math.min(x, most), y + 6);
  }
}

/** The reserved bytes of a picture's columns, as a step line. */
export function drawReserved(pen: Pen, viewport: Viewport, ink: Ink, picture: StackedPicture): void {
  const {window, reservedBytes} = picture;
  const perColumn = (window.x.to - window.x.from) / window.width;
  pen.strokeStyle = ink.reserved;
  pen.lineWidth = 1.5;
  pen.setLineDash([]);
  pen.beginPath();
  let last = Number.NaN;
  for (let column = 0; column < reservedBytes.length; column++) {
    const x = cssOfPosition(viewport, window.x.from + column * perColumn);
    const y = cssOfBytes(viewport, reservedBytes[column]);
    if (y === last && column !== reservedBytes.length - 1) continue;
    if (Number.isNaN(last)) pen.moveTo(x, y);
    else pen.lineTo(x, cssOfBytes(viewport, reservedBytes[column - 1]));
    pen.lineTo(x, y);
    last = y;
  }
  pen.stroke();
  pen.lineWidth = 1;
}

/** The memory outside PyTorch over the reserved line: a band an owner, the first one lowest. */
export function drawOutside(
  pen: Pen,
  viewport: Viewport,
  ink: Ink,
  picture: StackedPicture,
  colours: readonly string[],
): void {
  const {window, reservedBytes, outsideBytes} = picture;
  const owners = colours.length;
  const perColumn = (window.x.to - window.x.from) / window.width;
  const isSame = (a: number, b: number) => {
    if (reservedBytes[a] !== reservedBytes[b]) return false;
    for (let owner = 0; owner < owners; owner++)
      if (outsideBytes[a * owners + owner] !== outsideBytes[b * owners + owner]) return false;
    return true;
  };
  for (let column = 0; column < window.width; ) {
    let end = column + 1;
    while (end < window.width && isSame(column, end)) end++;
    const left = cssOfPosition(viewport, window.x.from + column * perColumn);
    const right = cssOfPosition(viewport, window.x.from + end * perColumn);
    let low = reservedBytes[column];
    for (let owner = 0; owner < owners; owner++) {
      const bytes = outsideBytes[column * owners + owner];
      if (bytes === 0) continue;
      const top = cssOfBytes(viewport, low + bytes);
      const bottom = cssOfBytes(viewport, low);
      pen.fillStyle = colours[owner];
      pen.fillRect(left, top, right - left, bottom - top);
      pen.fillStyle = ink.background;
      pen.fillRect(left, bottom - 0.5, right - left, 0.5);
      low += bytes;
    }
    column = end;
  }
}

/** Where the words of a level line begin and end, from where on they are alone, and the line below them. */
export interface LevelWords {
  readonly left: number;
  readonly right: number;
  readonly top: number;
  readonly line: number;
}

/** The height of a line of words. */
const WORDS_CSS = 14;

/**
 * A level line with its words at the right, or at the left where one of the marks at `taken` stands in them, if it is in view: what the
 * device has. Gives the place of the words.
 */
export function drawLevel(
  pen: Pen,
  viewport: Viewport,
  colour: string,
  bytes: number,
  words: string,
  taken: readonly number[] = [],
): LevelWords | undefined {
  if (bytes < viewport.lowBytes || bytes > viewport.highBytes) return undefined;
  const y = Math.round(cssOfBytes(viewport, bytes)) + 0.5;
  pen.strokeStyle = colour;
  pen.setLineDash([6, 4]);
  pen.beginPath();
  pen.moveTo(0, y);
  pen.lineTo(viewport.widthCss, y);
  pen.stroke();
  pen.setLineDash([]);
  pen.font = FONT;
  pen.fillStyle = colour;
  const width = textWidth(pen, words);
  const isFree = (left: number) => !taken.some(x => x > left - MARK_CSS && x < left + width + MARK_CSS);
  const right = viewport.widthCss - 4 - width;
  const left = isFree(right) || !isFree(4) ? right : 4;
  pen.textAlign = 'left';
  pen.textBaseline = 'bottom';
  pen.fillText(words, left, y - 2);
  return {left, right: left + width, top: y - 2 - WORDS_CSS, line: y};
}

/** Half the width of an error's triangle. */
const MARK_CSS = 5;

/** Where out-of-memory errors stand that are in view. */
export function placesOfErrors(
  viewport: Viewport,
  marks: readonly Mark[],
  positionOf: (entry: number) => number,
): number[] {
  const places = marks.filter(({kind}) => kind === 'oom').map(({entry}) => cssOfPosition(viewport, positionOf(entry)));
  return places.filter(x => x > -MARK_CSS && x < viewport.widthCss + MARK_CSS);
}

/** Marks nearer than this to the one before are not told apart. */
const MARK_GAP_CSS = 3;

/**
 * Out-of-memory errors as triangles over the whole height, snapshots and annotations as short lines at the top. The words of an error
 * stand at the top, or under the level line whose words they would cover. Gives where the lowest of them end.
 */
export function drawMarks(
  pen: Pen,
  viewport: Viewport,
  ink: Ink,
  marks: readonly Mark[],
  positionOf: (entry: number) => number,
  level?: LevelWords,
): number {
  let last = {oom: -Infinity, snapshot: -Infinity, annotate: -Infinity};
  let labelledTo = 0;
  let bottom = 0;
  for (const {entry, kind, label} of marks) {
    const x = cssOfPosition(viewport, positionOf(entry));
    if (x < -4 || x > viewport.widthCss + 4 || x - last[kind] < MARK_GAP_CSS) continue;
    last = {...last, [kind]: x};
    pen.strokeStyle = kind === 'oom' ? ink.danger : ink.faint;
    pen.setLineDash(kind === 'oom' ? [] : [2, 2]);
    pen.beginPath();
    pen.moveTo(x, 0);
    pen.lineTo(x, kind === 'annotate' ? 10 : viewport.heightCss);
    pen.stroke();
    pen.setLineDash([]);
    if (kind !== 'oom') continue;
    pen.fillStyle = ink.danger;
    pen.beginPath();
    pen.moveTo(x - MARK_CSS, 0);
    pen.lineTo(x + MARK_CSS, 0);
    pen.lineTo(x, 9);
    pen.closePath();
    pen.fill();
    const words = wordsBeside(pen, viewport, label, x);
    const place = placeOfLabel(pen, viewport, words, x);
    if (words === '' || place.left < labelledTo) continue;
    const covers = level && level.top < 1 + WORDS_CSS && place.right > level.left && place.left < level.right;
    const y = covers ? level.line + 3 : 1;
    drawLabel(pen, ink, words, place, y);
    labelledTo = place.right + 8;
    bottom = Math.max(bottom, y + WORDS_CSS);
  }
  return bottom;
}

/** The peak as a small triangle on the picture's top, with its words, which stand below `top`. */
export function drawPeak(
  pen: Pen,
  viewport: Viewport,
  ink: Ink,
  {position, bytes, words}: {position: number; bytes: number; words: string},
  top: number,
): void {
  const x = cssOfPosition(viewport, position);
  const y = cssOfBytes(viewport, bytes);
  if (x < 0 || x > viewport.widthCss || y < 0 || y > viewport.heightCss) return;
  pen.fillStyle = ink.text;
  pen.beginPath();
  pen.moveTo(x - 4, y - 7);
  pen.lineTo(x + 4, y - 7);
  pen.lineTo(x, y);
  pen.closePath();
  pen.fill();
  drawLabel(pen, ink, words, placeOfLabel(pen, viewport, words, x), Math.max(WORDS_CSS + 2, top + 2, y - 22));
}

interface LabelPlace {
  readonly left: number;
  readonly right: number;
}

/** The words of a mark; where neither side has room for them, those before the colon. */
function wordsBeside(pen: Pen, viewport: Viewport, label: string, x: number): string {
  pen.font = FONT;
  const room = Math.max(x, viewport.widthCss - x) - 8;
  return textWidth(pen, label) <= room ? label : label.split(': ', 1)[0];
}

/** Words stand at the right of `x`, or at its left where they do not fit. */
function placeOfLabel(pen: Pen, viewport: Viewport, words: string, x: number): LabelPlace {
  pen.font = FONT;
  const width = textWidth(pen, words);
  const left = x + 8 + width > viewport.widthCss ? Math.max(0, x - 8 - width) : x + 8;
  return {left, right: left + width};
}

/** Words over a strip of the background. */
function drawLabel(pen: Pen, ink: Ink, words: string, {left, right}: LabelPlace, y: number): void {
  const colour = pen.fillStyle;
  pen.fillStyle = ink.background;
  pen.fillRect(left - 3, y - 1, right - left + 6, WORDS_CSS);
  pen.fillStyle = colour;
  pen.textAlign = 'left';
  pen.textBaseline = 'top';
  pen.fillText(words, left, y);
}

/** A selected stretch. */
export function drawStretch(pen: Pen, viewport: Viewport, ink: Ink, from: number, to: number): void {
  const left = cssOfPosition(viewport, from);
  const right = cssOfPosition(viewport, to);
  pen.fillStyle = ink.accent;
  pen.globalAlpha = 0.15;
  pen.fillRect(left, 0, right - left, viewport.heightCss);
  pen.globalAlpha = 1;
  pen.strokeStyle = ink.accent;
  pen.beginPath();
  for (const x of [left, right]) {
    pen.moveTo(Math.round(x) + 0.5, 0);
    pen.lineTo(Math.round(x) + 0.5, viewport.heightCss);
  }
  pen.stroke();
}

/** An upright line: the cursor, or a ruler. */
export function drawRuler(pen: Pen, viewport: Viewport, colour: string, position: number): void {
  const x = Math.round(cssOfPosition(viewport, position)) + 0.5;
  pen.strokeStyle = colour;
  pen.beginPath();
  pen.moveTo(x, 0);
  pen.lineTo(x, viewport.heightCss);
  pen.stroke();
}

/** The outline of a band: in each column of the picture, the run of pixels that show it. */
export function drawBand(pen: Pen, viewport: Viewport, picture: StackedPicture, row: number, colour: string): void {
  const {window, ids} = picture;
  const perColumn = (window.x.to - window.x.from) / window.width;
  const perPixel = (window.highBytes - window.lowBytes) / window.height;
  pen.strokeStyle = colour;
  pen.fillStyle = colour;
  const columnCss = (perColumn / (viewport.x.to - viewport.x.from)) * viewport.widthCss;
  let before: {low: number; high: number} | undefined;
  pen.beginPath();
  for (let column = 0; column < window.width; column++) {
    const run = runOf(ids, column * window.height, window.height, row + 1);
    const x = cssOfPosition(viewport, window.x.from + column * perColumn);
    if (run) {
      const top = cssOfBytes(viewport, window.lowBytes + run.high * perPixel);
      const bottom = cssOfBytes(viewport, window.lowBytes + run.low * perPixel);
      pen.moveTo(x, top);
      pen.lineTo(x + columnCss, top);
      pen.moveTo(x, bottom);
      pen.lineTo(x + columnCss, bottom);
      if (!before) {
        pen.moveTo(x, top);
        pen.lineTo(x, bottom);
      }
    } else if (before) {
      pen.moveTo(x, cssOfBytes(viewport, window.lowBytes + before.high * perPixel));
      pen.lineTo(x, cssOfBytes(viewport, window.lowBytes + before.low * perPixel));
    }
    before = run;
  }
  pen.lineWidth = 1.5;
  pen.stroke();
  pen.lineWidth = 1;
}

/** The pixels of a column that show an id, from `low` up to and without `high`. */
export function runOf(
  ids: Uint32Array,
  at: number,
  height: number,
  id: number,
): {low: number; high: number} | undefined {
  let low = 0;
  while (low < height && (ids[at + low] & ID_MASK) !== id) low++;
  if (low === height) return undefined;
  let high = low + 1;
  while (high < height && (ids[at + high] & ID_MASK) === id) high++;
  return {low, high};
}
