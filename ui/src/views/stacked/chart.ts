/** A stacked picture on its canvases: keeps them at the size of the page, asks for pictures, and draws once a frame. */

import {effect} from '@preact/signals';
import {Problem} from '../../data/source';
import {
  drawBand,
  drawByteAxis,
  drawLevel,
  drawMarks,
  drawOutside,
  drawPeak,
  drawPositionAxis,
  drawReserved,
  drawRuler,
  drawStretch,
  type Ink,
  placesOfErrors,
} from '../../draw/overlay';
import {ownerColours} from '../../draw/palette';
import {cssOfBytes, cssOfPosition, type Viewport} from '../../draw/viewport';
import {type Axis, within} from '../../model/axis';
import {ID_IDLE, ID_MASK, ID_SHARED} from '../../model/column-ids';
import {dismiss, free} from '../../model/spare';
import {capacityOf, highestWithOutside, outsideShown} from '../../state/outside';
import {type Opened, opened, pictured, problem} from '../../state/session';
import * as store from '../../state/store';
import type {StackedPicture, StackedRequest} from '../../worker/pictures';
import {drawLanes, LANE_CSS, laneCount} from './lanes';
import {mark} from './mark';
import {drawMinimap, MINIMAP_CSS} from './minimap';
import {PictureSlot, type Wanted} from './picture-slot';

/** Space beside the plot, in CSS pixels. */
export const LEFT_CSS = 74;
export const BOTTOM_CSS = 24;

/** Device pixels of the picture of the whole recording. */
const OVERVIEW = {width: 800, height: 400};

/** How long after the last change of the view the pictures may be coarse. */
const MOVING_MS = 150;

/** What lies under the pointer. */
export interface Hit {
  /** The lifetime, or the segment, if the pixel shows one. */
  readonly row: number | undefined;
  /** Others share the pixel. */
  readonly isShared: boolean;
  /** It awaits its free, or it is the free part of a segment. */
  readonly isIdle: boolean;
  /** The entry of the pixel's column. */
  readonly entry: number;
  /** Memory outside PyTorch that lies there. */
  readonly outside?: OutsideHit;
}

/** A band of memory outside PyTorch. */
export interface OutsideHit {
  /** A row of the owners. */
  readonly owner: number;
  readonly bytes: number;
}

/** What is stacked. */
export interface ChartSource {
  make(request: StackedRequest): Promise<StackedPicture>;
  /** What pictures depend on beside their window and the theme: read from signals, so that the chart follows them. */
  key(): string;
  /** The row that is outlined throughout. */
  outlined(): number | null;
  /** The highest point of the picture, which gets a label. */
  peak?(device: Opened): {entry: number; bytes: number; words: string};
}

/** A stacked picture of one device over the x axis. */
export class StackedChart {
  readonly axis: Axis;
  readonly device: Opened;
  private readonly host: HTMLElement;
  private readonly source: ChartSource;
  private readonly canvas: HTMLCanvasElement;
  private readonly over: HTMLCanvasElement;
  private readonly slot: PictureSlot<StackedRequest, StackedPicture>;
  private overview: StackedPicture | undefined;
  private overviewKey = '';
  private isOverviewAsked = false;
  private frame = 0;
  private isStopped = false;
  private movedAt = 0;
  private lastX: unknown;
  private readonly stops: (() => void)[] = [];
  /** The lifetime under the pointer, which is outlined. */
  private hovered: number | undefined;
  /** A position under the pointer, for the ruler. */
  private pointer: number | undefined;
  /** Of the owners of memory outside PyTorch. */
  private readonly outsideColours: readonly string[];

  constructor(host: HTMLElement, device: Opened, axis: Axis, source: ChartSource) {
    this.host = host;
    this.source = source;
    this.device = device;
    this.axis = axis;
    this.outsideColours = ownerColours((device.device.outside?.owners ?? []).map(({title}) => title));
    this.canvas = host.appendChild(document.createElement('canvas'));
    this.over = host.appendChild(document.createElement('canvas'));
    this.slot = new PictureSlot(
      request => source.make(request),
      () => this.schedule(),
      error => {
        problem.value = Problem.from(error);
      },
    );
    const observer = new ResizeObserver(() => this.resize());
    observer.observe(host);
    this.stops.push(() => observer.disconnect());
    this.stops.push(
      effect(() => {
        if (store.xRange.value !== this.lastX) this.movedAt = performance.now();
        this.lastX = store.xRange.value;
        void [store.yRange.value, store.selection.value, store.cursor.value, store.shade.value];
        void [source.key(), source.outlined(), mark.value, outsideShown.value];
        this.schedule();
      }),
    );
    this.resize();
    this.draw();
  }

  /** Ends it. */
  stop(): void {
    this.isStopped = true;
    for (const stop of this.stops) stop();
    cancelAnimationFrame(this.frame);
    this.slot.stop();
    this.overview?.bitmap.close();
    free(this.overview?.ids);
    this.overview = undefined;
    dismiss(this.canvas);
    dismiss(this.over);
  }

  /** What the pointer is over; `undefined` for nothing. */
  set hover(hit: {row: number | undefined; position: number} | undefined) {
    this.hovered = hit?.row;
    this.pointer = hit?.position;
    this.schedule();
  }

  /** The entry under the pointer. */
  get entryAtPointer(): number | undefined {
    if (this.pointer === undefined) return undefined;
    return Math.min(this.axis.entryAt(this.pointer), this.device.entries - 1);
  }

  /** Space above the plot, in CSS pixels. */
  get topCss(): number {
    return MINIMAP_CSS + laneCount(this.device.device) * LANE_CSS + 4;
  }

  /** The plot, and what it shows. */
  get viewport(): Viewport {
    const y = store.yRange.value ?? this.fitY;
    const x = store.xRange.value;
    return {
      widthCss: Math.max(10, this.host.clientWidth - LEFT_CSS),
      heightCss: Math.max(10, this.host.clientHeight - this.topCss - BOTTOM_CSS),
      // The stretch may be another file's, or from an address: of it, what this axis has.
      x: x ? within(x, this.axis.range) : this.axis.range,
      lowBytes: y.low,
      highBytes: y.high,
    };
  }

  /** The bytes that show the peak, what was reserved for it, and the level that it could not pass. */
  get fitY(): {low: number; high: number} {
    return {low: 0, high: highestWithOutside(this.device) * 1.03};
  }

  /** What lies at a place of the host, in CSS pixels from the plot's upper left corner. */
  hit(xCss: number, yCss: number): Hit | undefined {
    const picture = this.slot.newest;
    if (!picture) return undefined;
    const {window, ids, entries} = picture;
    const {widthCss, heightCss, x, lowBytes, highBytes} = this.viewport;
    if (xCss < 0 || yCss < 0 || xCss >= widthCss || yCss >= heightCss) return undefined;
    const position = x.from + (xCss / widthCss) * (x.to - x.from);
    const bytes = lowBytes + ((heightCss - yCss) / heightCss) * (highBytes - lowBytes);
    const column = Math.floor(((position - window.x.from) / (window.x.to - window.x.from)) * window.width);
    const pixel = Math.floor(((bytes - window.lowBytes) / (window.highBytes - window.lowBytes)) * window.height);
    if (column < 0 || column >= window.width || pixel < 0 || pixel >= window.height) return undefined;
    const id = ids[column * window.height + pixel];
    const outside = id === 0 ? this.outsideAt(picture, column, bytes) : undefined;
    return {
      row: id === 0 ? undefined : (id & ID_MASK) - 1,
      isShared: (id & ID_SHARED) !== 0,
      isIdle: (id & ID_IDLE) !== 0,
      entry: entries[column],
      ...(outside ? {outside} : {}),
    };
  }

  private outsideAt({reservedBytes, outsideBytes}: StackedPicture, column: number, at: number): OutsideHit | undefined {
    if (outsideShown.value === 'hidden') return undefined;
    const owners = this.outsideColours.length;
    let low = reservedBytes[column];
    if (at < low) return undefined;
    for (let owner = 0; owner < owners; owner++) {
      const bytes = outsideBytes[column * owners + owner];
      if (at < low + bytes) return {owner, bytes};
      low += bytes;
    }
    return undefined;
  }

  /** Draws in the next frame. */
  schedule(): void {
    if (this.frame === 0 && !this.isStopped) {
      this.frame = requestAnimationFrame(() => {
        this.frame = 0;
        this.draw();
      });
    }
  }

  /** The picture, as a canvas to be saved. */
  toCanvas(): HTMLCanvasElement {
    const copy = document.createElement('canvas');
    copy.width = this.over.width;
    copy.height = this.over.height;
    const pen = copy.getContext('2d')!;
    pen.fillStyle = getComputedStyle(this.host).backgroundColor;
    pen.fillRect(0, 0, copy.width, copy.height);
    const ratio = this.over.width / Math.max(1, this.host.clientWidth);
    pen.drawImage(this.canvas, LEFT_CSS * ratio, this.topCss * ratio);
    pen.drawImage(this.over, 0, 0);
    return copy;
  }

  private get ratio(): number {
    return globalThis.devicePixelRatio || 1;
  }

  private resize(): void {
    const {widthCss, heightCss} = this.viewport;
    const set = (canvas: HTMLCanvasElement, left: number, top: number, width: number, height: number) => {
      canvas.width = Math.round(width * this.ratio);
      canvas.height = Math.round(height * this.ratio);
      canvas.style.cssText = `position:absolute;left:${left}px;top:${top}px;width:${width}px;height:${height}px`;
    };
    set(this.canvas, LEFT_CSS, this.topCss, widthCss, heightCss);
    set(this.over, 0, 0, this.host.clientWidth, this.host.clientHeight);
    this.movedAt = 0;
    this.schedule();
  }

  /** What the worker is to draw for a viewport. */
  private wanted(viewport: Viewport, {width, height}: {width: number; height: number}): Wanted<StackedRequest> {
    const {x, lowBytes, highBytes} = viewport;
    const fixed = {
      x,
      lowBytes,
      highBytes,
      axis: this.axis.kind,
      shade: store.shade.value,
    };
    const key = JSON.stringify([fixed, width, height, this.source.key()]);
    return {
      key,
      request: (scale, spare) => ({
        ...fixed,
        ...(spare ? {spare} : {}),
        width: Math.max(1, Math.round(width * scale)),
        height: Math.max(1, Math.round(height * scale)),
      }),
    };
  }

  private draw(): void {
    if (opened.value !== this.device || this.canvas.width === 0 || this.canvas.height === 0) return;
    // The visible stretch is the other axis' already, whose chart comes next.
    if (this.device.device.time_us && store.axis.value !== this.axis.kind) return;
    const viewport = this.viewport;
    const isMoving = performance.now() - this.movedAt < MOVING_MS;
    const wanted = this.wanted(viewport, this.canvas);
    if (isMoving) setTimeout(() => this.schedule(), MOVING_MS);
    this.slot.ask(wanted, isMoving);
    this.askOverview();
    this.drawPictures(viewport);
    this.drawOver(viewport);
    if (this.slot.isExact(wanted)) this.host.dataset.picture = 'exact';
    else if (this.slot.newest) this.host.dataset.picture = 'moved';
    if (this.slot.newest) pictured.value = this.device;
  }

  /** The whole recording, behind the newest picture and in the minimap. */
  private askOverview(): void {
    if (this.isOverviewAsked || !this.slot.newest) return;
    const wanted = this.wanted(
      {...this.viewport, x: this.axis.range, lowBytes: 0, highBytes: this.fitY.high},
      OVERVIEW,
    );
    if (wanted.key === this.overviewKey) return;
    this.isOverviewAsked = true;
    this.source.make(wanted.request(1, undefined)).then(
      picture => {
        this.overview?.bitmap.close();
        this.overview = picture;
        this.overviewKey = wanted.key;
        this.isOverviewAsked = false;
        this.schedule();
      },
      () => {
        this.isOverviewAsked = false;
      },
    );
  }

  private drawPictures(viewport: Viewport): void {
    const pen = this.canvas.getContext('2d', {alpha: false})!;
    pen.setTransform(1, 0, 0, 1, 0, 0);
    pen.fillStyle = this.ink().background;
    pen.fillRect(0, 0, this.canvas.width, this.canvas.height);
    pen.imageSmoothingEnabled = false;
    const newest = this.slot.newest;
    if (!newest) return;
    const covers = newest.window.x.from <= viewport.x.from && newest.window.x.to >= viewport.x.to;
    if (this.overview && !covers) this.drawMoved(pen, viewport, this.overview);
    this.drawMoved(pen, viewport, newest);
  }

  /** Draws a picture where its window lies by now. */
  private drawMoved(pen: CanvasRenderingContext2D, viewport: Viewport, picture: StackedPicture): void {
    const {x, lowBytes, highBytes} = picture.window;
    const left = cssOfPosition(viewport, x.from) * this.ratio;
    const right = cssOfPosition(viewport, x.to) * this.ratio;
    const top = cssOfBytes(viewport, highBytes) * this.ratio;
    const bottom = cssOfBytes(viewport, lowBytes) * this.ratio;
    const isHere = Math.abs(left) < 0.01 && Math.abs(right - this.canvas.width) < this.ratio;
    if (isHere && Math.abs(top) < 0.01) pen.drawImage(picture.bitmap, 0, 0, this.canvas.width, this.canvas.height);
    else pen.drawImage(picture.bitmap, left, top, right - left, bottom - top);
  }

  private drawOver(viewport: Viewport): void {
    const pen = this.over.getContext('2d')!;
    const ink = this.ink();
    const {ratio, topCss} = this;
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, this.over.width, this.over.height);
    const {device} = this.device;
    const positionOf = (entry: number) => this.axis.positionOf(entry);
    drawByteAxis(pen, viewport, ink, LEFT_CSS, topCss);
    drawPositionAxis(pen, viewport, ink, LEFT_CSS, topCss + viewport.heightCss, this.axis.kind);

    pen.save();
    pen.beginPath();
    pen.rect(LEFT_CSS, 0, viewport.widthCss, topCss + viewport.heightCss);
    pen.clip();
    pen.translate(LEFT_CSS, 0);
    if (this.overview) {
      drawMinimap(pen, this.overview, viewport, this.axis.range, ink, outsideShown.value !== 'hidden');
    }
    pen.translate(0, MINIMAP_CSS + 2);
    drawLanes(pen, viewport, ink, device, positionOf);
    pen.translate(0, topCss - MINIMAP_CSS - 2);
    const {ceiling} = device;
    const errors = placesOfErrors(viewport, device.marks, positionOf);
    const level = ceiling && drawLevel(pen, viewport, ink.capacity, ceiling.bytes, ceiling.label, errors);
    const newest = this.slot.newest;
    const capacity = capacityOf(this.device);
    if (capacity) drawLevel(pen, viewport, ink.capacity, capacity.bytes, capacity.words);
    if (newest) {
      if (outsideShown.value !== 'hidden') drawOutside(pen, viewport, ink, newest, this.outsideColours);
      drawReserved(pen, viewport, ink, newest);
      if (this.hovered !== undefined) drawBand(pen, viewport, newest, this.hovered, ink.text);
      const outlined = this.source.outlined();
      if (outlined !== null) drawBand(pen, viewport, newest, outlined, ink.accent);
    }
    const wordsEnd = drawMarks(pen, viewport, ink, device.marks, positionOf, level);
    const peak = this.source.peak?.(this.device);
    if (peak) drawPeak(pen, viewport, ink, {...peak, position: positionOf(peak.entry)}, wordsEnd);
    const selected = store.selection.value;
    if (selected) drawStretch(pen, viewport, ink, positionOf(selected.from), positionOf(selected.to));
    if (mark.value !== null) drawRuler(pen, viewport, ink.text, positionOf(mark.value));
    if (store.cursor.value !== null) drawRuler(pen, viewport, ink.accent, positionOf(store.cursor.value));
    if (this.pointer !== undefined) drawRuler(pen, viewport, ink.faint, this.pointer);
    pen.restore();
  }

  private ink(): Ink {
    const style = getComputedStyle(this.host);
    const colour = (name: string) => style.getPropertyValue(`--${name}`).trim();
    return {
      background: colour('plot'),
      text: colour('text'),
      faint: colour('faint'),
      grid: colour('grid'),
      reserved: colour('reserved'),
      capacity: colour('capacity'),
      danger: colour('danger'),
      accent: colour('accent'),
    };
  }
}
