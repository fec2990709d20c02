/** Wheel, drag and touch on a stacked picture, from events to the state. */

import {bytesOfCss, positionOfCss, SPAN_MIN, zoomed} from '../../draw/viewport';
import type {Gesture} from '../../kit/keys';
import {type AxisRange, entriesOfColumn, moved, within} from '../../model/axis';
import * as store from '../../state/store';
import {type Hit, LEFT_CSS, type StackedChart} from './chart';
import {dragged, type Grip, gripAt, MINIMAP_CSS, positionOnMinimap} from './minimap';

/** What the gestures report. */
export interface GestureEvents {
  /** The pointer is over something, or left. */
  onHover(hit: Hit | undefined, event: PointerEvent | undefined): void;
  onClick(hit: Hit | undefined): void;
  onDoubleClick(hit: Hit | undefined): void;
  onMenu(hit: Hit | undefined, event: MouseEvent): void;
}

/** Pointer moves shorter than this are a click. */
const CLICK_CSS = 4;
/** The most that one event of a pinch, or of a wheel with Ctrl, may zoom by, in pixels of a wheel. */
const PINCH_MAX = 40;

/** What the hands do on a chart, for the help card. */
export const GESTURES: readonly Gesture[] = [
  {hands: 'wheel, pinch', help: 'zoom at the pointer'},
  {hands: 'Shift wheel', help: 'move left and right'},
  {hands: 'Alt wheel', help: 'zoom the bytes'},
  {hands: 'drag', help: 'move'},
  {hands: 'drag in the strip', help: 'show a range; move or resize the frame in it'},
  {hands: 'Shift drag', help: 'measure a range'},
  {hands: 'click', help: 'pin the item under the pointer'},
  {hands: 'double click', help: 'fit its lifetime'},
];

/** How a drag began. */
interface Drag {
  readonly kind: 'pan' | 'select' | Grip;
  readonly x: number;
  readonly y: number;
  readonly from: {x: {from: number; to: number}; low: number; high: number};
  hasMoved: boolean;
}

/** Listens to the host of a chart. Gives what ends it. */
export function listen(host: HTMLElement, chart: StackedChart, events: GestureEvents): () => void {
  let drag: Drag | undefined;
  const end = new AbortController();
  const on = <K extends keyof HTMLElementEventMap>(
    name: K,
    handler: (event: HTMLElementEventMap[K]) => void,
    passive = true,
  ) => host.addEventListener(name, handler as EventListener, {signal: end.signal, passive});

  const place = (event: MouseEvent) => {
    const box = host.getBoundingClientRect();
    const topCss = event.clientY - box.top;
    return {x: event.clientX - box.left - LEFT_CSS, y: topCss - chart.topCss, topCss};
  };
  const hitAt = (event: MouseEvent) => {
    const {x, y} = place(event);
    return chart.hit(x, y);
  };

  on(
    'wheel',
    event => {
      event.preventDefault();
      const {x, y} = place(event);
      const viewport = chart.viewport;
      const lines = event.deltaMode === WheelEvent.DOM_DELTA_LINE ? 16 : 1;
      const along = event.deltaY * lines;
      const across = event.deltaX * lines;
      const isCtrl = event.ctrlKey || event.metaKey;
      if (event.altKey || (isCtrl && event.shiftKey)) {
        zoomBytes(chart, bytesOfCss(viewport, y), 1.0025 ** (along || across));
      } else if (isCtrl) {
        zoomAbout(chart, positionOfCss(viewport, x), pinchFactor(along));
      } else if (event.shiftKey || Math.abs(across) > Math.abs(along)) {
        panBy(chart, ((across || along) / viewport.widthCss) * (viewport.x.to - viewport.x.from));
      } else {
        zoomAbout(chart, positionOfCss(viewport, x), 1.0025 ** along);
      }
    },
    false,
  );

  listenToSafariPinch(host, end.signal, (event, factor) =>
    zoomAbout(chart, positionOfCss(chart.viewport, place(event).x), factor),
  );

  /** What a drag that begins here does with the strip of the whole recording. */
  const gripOf = ({x, topCss}: {x: number; topCss: number}) =>
    topCss < MINIMAP_CSS ? gripAt(chart.viewport, chart.axis.range, x) : undefined;

  on('pointerdown', event => {
    if (event.button !== 0) return;
    const at = place(event);
    const {x: range, lowBytes, highBytes} = chart.viewport;
    const kind = gripOf(at) ?? (event.shiftKey || event.altKey ? 'select' : 'pan');
    drag = {kind, x: at.x, y: at.y, from: {x: range, low: lowBytes, high: highBytes}, hasMoved: false};
    host.setPointerCapture(event.pointerId);
  });

  on('pointermove', event => {
    const at = place(event);
    const {x, y} = at;
    if (!drag) {
      host.dataset.grip = gripOf(at) ?? '';
      events.onHover(chart.hit(x, y), event);
      return;
    }
    drag.hasMoved ||= Math.hypot(x - drag.x, y - drag.y) > CLICK_CSS;
    if (!drag.hasMoved) return;
    if (drag.kind === 'select') selectBetween(chart, drag.x, x);
    else if (drag.kind === 'pan') panTo(chart, drag, x, y);
    else showDragged(chart, drag.kind, drag, x);
  });

  on('pointerup', event => {
    const ended = drag;
    drag = undefined;
    if (!ended || ended.hasMoved) return;
    if (ended.kind === 'pan' || ended.kind === 'select') events.onClick(hitAt(event));
    else centreOn(chart, ended.x);
  });
  on('pointercancel', () => {
    drag = undefined;
  });
  on('pointerleave', () => events.onHover(undefined, undefined));
  on('contextmenu', event => events.onMenu(hitAt(event), event), false);
  on('dblclick', event => {
    if (gripOf(place(event))) store.xRange.value = null;
    else events.onDoubleClick(hitAt(event));
  });
  return () => end.abort();
}

/** How far a wheel with Ctrl zooms, which is what a browser makes of a pinch: in small steps, of which a notch is many. */
export function pinchFactor(along: number): number {
  return 1.01 ** Math.min(Math.max(along, -PINCH_MAX), PINCH_MAX);
}

function panTo(chart: StackedChart, drag: Drag, x: number, y: number): void {
  const {widthCss, heightCss} = chart.viewport;
  const {x: range, low, high} = drag.from;
  store.xRange.value = wholeAsNull(chart, moved(range, ((drag.x - x) / widthCss) * (range.to - range.from)));
  if (store.yRange.value === null) return;
  const by = Math.max(((y - drag.y) / heightCss) * (high - low), -low);
  store.yRange.value = {low: low + by, high: high + by};
}

/** Moves the view by a distance on the axis. */
export function panBy(chart: StackedChart, by: number): void {
  store.xRange.value = wholeAsNull(chart, moved(chart.viewport.x, by));
}

/** Zooms the x axis about a position. */
export function zoomAbout(chart: StackedChart, position: number, factor: number): void {
  store.xRange.value = zoomed(chart.viewport.x, chart.axis.range, position, factor, chart.axis.kind);
}

/** The least bytes that can fill the plot. */
const BYTES_MIN = 1024;

/** Zooms the y axis about an amount; back to the fitted axis where that is reached. */
export function zoomBytes(chart: StackedChart, about: number, factor: number): void {
  const {lowBytes, highBytes} = chart.viewport;
  const fit = chart.fitY;
  const span = Math.max((highBytes - lowBytes) * factor, BYTES_MIN);
  if (span >= fit.high - fit.low) {
    store.yRange.value = null;
    return;
  }
  const low = Math.max(0, about - ((about - lowBytes) / (highBytes - lowBytes)) * span);
  store.yRange.value = {low, high: low + span};
}

/** Shows a stretch of entries, with a margin. */
export function showEntries(chart: StackedChart, from: number, to: number, margin = 0.1): void {
  const low = chart.axis.positionOf(from);
  const high = Math.max(chart.axis.positionOf(to), low + 1);
  const by = Math.max((high - low) * margin, chart.axis.kind === 'entry' ? 4 : 1);
  store.xRange.value = wholeAsNull(chart, {from: low - by, to: high + by});
}

function centreOn(chart: StackedChart, xCss: number): void {
  const {x} = chart.viewport;
  panBy(chart, positionOnMinimap(chart.viewport, chart.axis.range, xCss) - (x.from + x.to) / 2);
}

/** Shows what a drag in the strip has reached. */
function showDragged(chart: StackedChart, grip: Grip, drag: Drag, xCss: number): void {
  const {range: whole, kind} = chart.axis;
  const at = (css: number) => positionOnMinimap(chart.viewport, whole, css);
  const range = dragged(grip, drag.from.x, at(drag.x), at(xCss), Math.min(SPAN_MIN[kind], whole.to - whole.from));
  const inside = {from: Math.max(range.from, whole.from), to: Math.min(range.to, whole.to)};
  store.xRange.value = wholeAsNull(chart, grip === 'move' ? range : inside);
}

function selectBetween(chart: StackedChart, a: number, b: number): void {
  const viewport = chart.viewport;
  const from = positionOfCss(viewport, Math.max(0, Math.min(a, b)));
  const to = positionOfCss(viewport, Math.min(viewport.widthCss, Math.max(a, b)));
  store.selection.value = entriesOfColumn(chart.axis, chart.device.entries, from, to);
}

/** The part of the axis nearest to a range; `null` for all of it. */
function wholeAsNull(chart: StackedChart, range: AxisRange): AxisRange | null {
  const whole = chart.axis.range;
  const inside = within(range, whole);
  return inside.from <= whole.from && inside.to >= whole.to ? null : inside;
}

/** Safari tells of a pinch in events of its own; `scale` counts from 1 at its beginning. */
function listenToSafariPinch(
  host: HTMLElement,
  signal: AbortSignal,
  zoom: (event: MouseEvent, factor: number) => void,
): void {
  let last = 1;
  const on = (name: string, handler: (event: MouseEvent & {scale: number}) => void) =>
    host.addEventListener(
      name,
      event => {
        event.preventDefault();
        handler(event as MouseEvent & {scale: number});
      },
      {signal, passive: false},
    );
  on('gesturestart', () => {
    last = 1;
  });
  on('gesturechange', event => {
    if (event.scale > 0) zoom(event, last / event.scale);
    last = event.scale;
  });
}
