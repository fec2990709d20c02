/** The whole recording in a strip: dragging in it moves the cursor. */

import {useSignal, useSignalEffect} from '@preact/signals';
import {useEffect, useRef} from 'preact/hooks';
import {count} from '../../model/units';
import {outsideShown} from '../../state/outside';
import {engine, type Opened, opened, shownEntry} from '../../state/session';
import * as store from '../../state/store';
import type {Curve} from '../../worker/pictures';

/** Columns of the curve. */
const COLUMNS = 1000;
const HEIGHT_CSS = 44;

export function Scrubber({device}: {device: Opened}) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const curve = useSignal<Curve | null>(null);
  const width = useSignal(0);

  useEffect(() => {
    const element = canvas.current;
    if (!element) return;
    const observer = new ResizeObserver(() => {
      width.value = element.clientWidth;
    });
    observer.observe(element);
    void engine()
      .curve('entry', COLUMNS)
      .then(made => {
        curve.value = made;
      });
    return () => observer.disconnect();
  }, [device]);

  useSignalEffect(() => {
    if (opened.value !== device) return;
    void store.shade.value;
    if (canvas.current && curve.value && width.value > 0) draw(canvas.current, curve.value, device);
  });

  const scrub = (event: PointerEvent) => {
    const box = canvas.current?.getBoundingClientRect();
    if (!box) return;
    const part = Math.min(Math.max((event.clientX - box.left) / box.width, 0), 1);
    store.cursor.value = Math.min(Math.floor(part * device.entries), device.entries - 1);
  };
  return (
    <div class="scrubber">
      <canvas
        ref={canvas}
        role="slider"
        tabIndex={0}
        aria-label="Entry"
        aria-valuemin={0}
        aria-valuemax={device.entries - 1}
        aria-valuenow={shownEntry.value}
        aria-valuetext={`entry ${count(shownEntry.value)}`}
        onPointerDown={event => {
          event.currentTarget.setPointerCapture(event.pointerId);
          scrub(event);
        }}
        onPointerMove={event => {
          if (event.buttons & 1) scrub(event);
        }}
      />
      <i style={{transform: `translateX(${xOf(shownEntry.value + 0.5, device, width.value).toFixed(1)}px)`}} />
    </div>
  );
}

/** Where an entry lies in a strip, in CSS pixels. */
function xOf(entry: number, device: Opened, width: number): number {
  return (entry / device.entries) * width;
}

/** The curve alone: the cursor over it moves without another picture. */
function draw(canvas: HTMLCanvasElement, curve: Curve, device: Opened): void {
  const ratio = globalThis.devicePixelRatio || 1;
  const width = canvas.clientWidth;
  const [pixels, lines] = [Math.round(width * ratio), Math.round(HEIGHT_CSS * ratio)];
  canvas.width = pixels;
  canvas.height = lines;
  const pen = canvas.getContext('2d')!;
  const style = getComputedStyle(canvas);
  const colour = (name: string) => style.getPropertyValue(`--${name}`).trim();
  pen.scale(ratio, ratio);
  const showsOutside = outsideShown.value !== 'hidden';
  const most = Math.max(device.reservedMaxBytes, device.peakBytes, showsOutside ? device.cardMaxBytes : 0, 1);
  const area = (values: Float64Array, fill: string, alpha: number) => {
    pen.globalAlpha = alpha;
    pen.fillStyle = fill;
    pen.beginPath();
    pen.moveTo(0, HEIGHT_CSS);
    for (const [column, value] of values.entries()) {
      const y = HEIGHT_CSS - (value / most) * (HEIGHT_CSS - 4);
      pen.lineTo((column / values.length) * width, y);
      pen.lineTo(((column + 1) / values.length) * width, y);
    }
    pen.lineTo(width, HEIGHT_CSS);
    pen.closePath();
    pen.fill();
    pen.globalAlpha = 1;
  };
  if (showsOutside) area(curve.cardBytes, colour('reserved'), 0.15);
  area(curve.reservedBytes, colour('reserved'), 0.25);
  area(curve.highBytes, colour('faint'), 0.8);
  for (const mark of device.device.marks) {
    if (mark.kind !== 'oom') continue;
    pen.fillStyle = colour('danger');
    pen.fillRect(xOf(mark.entry, device, width) - 1, 0, 2, HEIGHT_CSS);
  }
}
