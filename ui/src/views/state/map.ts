/** The picture of a state on its canvas: keeps its size, asks for pictures, and says what a pixel is. */

import {effect} from '@preact/signals';
import {Transferred} from '../../data/rpc';
import {Problem} from '../../data/source';
import {FONT, type Pen} from '../../draw/overlay';
import {textWidth} from '../../draw/text-width';
import {dismiss} from '../../model/spare';
import {STRIP_NUMBERS} from '../../model/state-layout';
import {binary, counted} from '../../model/units';
import {emphasis} from '../../state/legend';
import {outsideShown} from '../../state/outside';
import {engine, type Opened, opened, pictured, problem, searchGeneration, shownEntry} from '../../state/session';
import * as store from '../../state/store';
import {OUTSIDE_ID, type StatePicture, type StateRequest} from '../../worker/state';
import {fitted} from '../stacked/lanes';
import {PictureSlot} from '../stacked/picture-slot';

/** Heights, in CSS pixels. */
const STRIP_CSS = 18;
const HEADING_CSS = 20;
const GAP_CSS = 2;
const WIDTH_MIN_CSS = 3;
const MARGIN_CSS = 8;

/**
 * Least time between two pictures, in milliseconds: what a picture leaves in two threads is collected seconds later, and while the cursor
 * is dragged more of them show nothing more.
 */
const PACE_MS = 30;

/** What lies at a pixel. */
export type StateHit =
  | {kind: 'block'; row: number}
  | {kind: 'outside'; row: number}
  | {kind: 'free' | 'unmapped'; segment: number};

/** The map of a device's memory. */
export class StateMap {
  /** Called with each new picture. */
  onPicture: (picture: StatePicture) => void = () => {};
  private readonly host: HTMLElement;
  private readonly device: Opened;
  private readonly canvas: HTMLCanvasElement;
  private readonly slot: PictureSlot<StateRequest, StatePicture>;
  private readonly stops: (() => void)[] = [];
  private frame = 0;
  private isStopped = false;
  private askedAt = Number.NEGATIVE_INFINITY;
  private zoom = 1;
  /** CSS pixels of the layout above the canvas. */
  private top = 0;

  constructor(host: HTMLElement, device: Opened) {
    this.host = host;
    this.device = device;
    this.canvas = host.appendChild(document.createElement('canvas'));
    this.slot = new PictureSlot(
      request => engine().state(new Transferred(request, request.spare ? [request.spare.buffer] : [])),
      picture => {
        this.onPicture(picture);
        this.schedule();
      },
      error => {
        problem.value = Problem.from(error);
      },
    );
    const observer = new ResizeObserver(() => this.resize());
    observer.observe(host);
    const onWheel = (event: WheelEvent) => this.wheel(event);
    host.addEventListener('wheel', onWheel, {passive: false});
    this.stops.push(
      () => observer.disconnect(),
      () => host.removeEventListener('wheel', onWheel),
      effect(() => {
        void [shownEntry.value, store.colourBy.value, store.shade.value, store.pinned.value, searchGeneration.value];
        void [emphasis.value, outsideShown.value];
        this.schedule();
      }),
    );
    this.resize();
  }

  stop(): void {
    this.isStopped = true;
    for (const stop of this.stops) stop();
    cancelAnimationFrame(this.frame);
    this.slot.stop();
    dismiss(this.canvas);
  }

  /** What lies at a place of the host, in CSS pixels from its upper left corner. */
  hit(xCss: number, yCss: number): StateHit | undefined {
    const picture = this.slot.newest;
    if (!picture) return undefined;
    const x = (xCss - MARGIN_CSS) * this.ratio;
    const y = (yCss + this.top) * this.ratio;
    const height = STRIP_CSS * this.ratio;
    for (let at = 0; at < picture.strips.length; at += STRIP_NUMBERS) {
      const [segment, left, top, width, ids] = picture.strips.subarray(at, at + STRIP_NUMBERS);
      if (y < top || y >= top + height || x < left || x >= left + width) continue;
      const id = picture.ids[ids + Math.floor(x - left)];
      if (id >= OUTSIDE_ID) return {kind: 'outside', row: id - OUTSIDE_ID};
      if (id >= 2) return {kind: 'block', row: id - 2};
      return {kind: id === 1 ? 'free' : 'unmapped', segment};
    }
    return undefined;
  }

  /** Enlarges or shrinks; 1 fits the fullest state. */
  setZoom(zoom: number): void {
    this.zoom = Math.min(Math.max(zoom, 1), 4096);
    this.schedule();
  }

  zoomBy(factor: number): void {
    this.top = this.zoom * factor >= 1 ? this.top * factor : 0;
    this.setZoom(this.zoom * factor);
  }

  /** The picture, to be saved. */
  toCanvas(): HTMLCanvasElement {
    return this.canvas;
  }

  private get ratio(): number {
    return globalThis.devicePixelRatio || 1;
  }

  private resize(): void {
    this.canvas.width = Math.max(1, Math.round(this.host.clientWidth * this.ratio));
    this.canvas.height = Math.max(1, Math.round(this.host.clientHeight * this.ratio));
    this.canvas.style.cssText = 'position:absolute;inset:0;width:100%;height:100%';
    this.schedule();
  }

  private wheel(event: WheelEvent): void {
    event.preventDefault();
    if (event.ctrlKey || event.metaKey) {
      this.zoomBy(1.0025 ** -event.deltaY);
      return;
    }
    const most = Math.max(0, (this.slot.newest?.layoutHeight ?? 0) / this.ratio - this.host.clientHeight + 20);
    this.top = Math.min(Math.max(0, this.top + event.deltaY), most);
    this.schedule();
  }

  private schedule(): void {
    if (this.frame === 0 && !this.isStopped) {
      this.frame = requestAnimationFrame(() => {
        this.frame = 0;
        this.draw();
      });
    }
  }

  private request(): StateRequest {
    const {ratio} = this;
    return {
      entry: shownEntry.value,
      width: this.canvas.width,
      height: this.canvas.height,
      measures: {
        width: Math.max(1, this.canvas.width - Math.round(2 * MARGIN_CSS * ratio)),
        stripHeight: Math.round(STRIP_CSS * ratio),
        gap: Math.round(GAP_CSS * ratio),
        headingHeight: Math.round(HEADING_CSS * ratio),
        widthMin: Math.round(WIDTH_MIN_CSS * ratio),
      },
      zoom: this.zoom,
      top: Math.round(this.top * ratio),
      colourBy: store.colourBy.value,
      shade: store.shade.value,
      highlightsSearch: store.query.value !== '',
      emphasis: emphasis.value,
      pinned: store.pinned.value,
      showsOutside: outsideShown.value !== 'hidden',
    };
  }

  private draw(): void {
    if (opened.value !== this.device) return;
    const request = this.request();
    const wanted = {
      key: JSON.stringify([request, searchGeneration.value]),
      request: (_: number, spare?: Uint32Array) => (spare ? {...request, spare} : request),
    };
    const now = performance.now();
    if (this.slot.isExact(wanted) || now - this.askedAt >= PACE_MS) {
      if (!this.slot.isExact(wanted)) this.askedAt = now;
      this.slot.ask(wanted, false);
    } else this.schedule();
    const picture = this.slot.newest;
    if (!picture) return;
    const pen = this.canvas.getContext('2d', {alpha: false})!;
    const style = getComputedStyle(this.host);
    pen.setTransform(1, 0, 0, 1, 0, 0);
    pen.fillStyle = style.getPropertyValue('--plot').trim();
    pen.fillRect(0, 0, this.canvas.width, this.canvas.height);
    pen.putImageData(imageOf(picture), Math.round(MARGIN_CSS * this.ratio), 0);
    pen.scale(this.ratio, this.ratio);
    pen.font = FONT;
    pen.textBaseline = 'bottom';
    pen.fillStyle = style.getPropertyValue('--text').trim();
    for (const heading of picture.headings) {
      const {y} = heading;
      pen.fillText(
        wordsThatFit(pen, heading, this.device.reservedMaxBytes > 0, this.canvas.width / this.ratio - 2 * MARGIN_CSS),
        MARGIN_CSS,
        y / this.ratio - this.top + HEADING_CSS - 3,
      );
    }
    this.host.dataset.picture = this.slot.isExact(wanted) ? 'exact' : 'moved';
    this.host.dataset.entry = String(picture.entry);
    pictured.value = this.device;
  }
}

/** The words of a heading; where they are too wide, the name is shortened and then cut, and its bytes are whole. */
export function wordsThatFit(
  pen: Pen,
  heading: StatePicture['headings'][number],
  knowsPytorch: boolean,
  widthCss: number,
): string {
  const {label, segments, mappedBytes, usedBytes, isOutside} = heading;
  const name = isOutside && knowsPytorch ? `${label}, outside PyTorch` : label;
  const short = name.replace(/ (pool|blocks)\b/g, '');
  const number = counted(segments, isOutside ? 'allocation' : 'segment');
  const bytes = isOutside ? binary(mappedBytes) : `${binary(usedBytes)} of ${binary(mappedBytes)}`;
  for (const words of [
    `${name}: ${number}, ${bytes}${isOutside ? '' : ' in use'}`,
    `${name}: ${bytes}`,
    `${short}: ${bytes}`,
  ]) {
    if (textWidth(pen, words) <= widthCss) return words;
  }
  return `${fitted(pen, short, widthCss - textWidth(pen, `: ${bytes}`))}: ${bytes}`;
}

function imageOf({pixels, width, height}: StatePicture): ImageData {
  return new ImageData(new Uint8ClampedArray(pixels.buffer, pixels.byteOffset, pixels.byteLength), width, height);
}
