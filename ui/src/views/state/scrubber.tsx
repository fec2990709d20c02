/** The whole recording in a strip: dragging in it moves the cursor. */

import {useSignal, useSignalEffect} from '@preact/signals';
import {useEffect, useRef} from 'preact/hooks';
import {count} from '../../model/units';
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
    if (canvas.current && curve.value && width.value > 0) draw(canvas.current, curve.value, device, shownEntry.value);
  });

  const scrub = (event: PointerEvent) => {
    const box = canvas.current?.getBoundingClientRect();
    if (!box) return;
    const part = Math.min(Math.max((event.clientX - box.left) / box.width, 0), 1);
    store.cursor.value = Math.min(Math.floor(part * device.entries), device.entries - 1);
  };
  return (
    <canvas
      ref={canvas}
      class="scrubber"
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
  );
}

function draw(canvas: HTMLCanvasElement, curve: Curve, device: Opened, entry: number): void {
  const ratio = globalThis.devicePixelRatio || 1;
  const width = canvas.clientWidth;
  const [pixels, lines] = [Math.round(width * ratio), Math.round(HEIGHT_CSS * ratio)];
  // Setting a size, even the same one, makes new memory for the pixels; this runs for every entry that is scrubbed over.
  if (canvas.width !== pixels) canvas.width = pixels;
  if (canvas.height !== lines) canvas.height = lines;
  const pen = canvas.getContext('2d')!;
  pen.setTransform(1, 0, 0, 1, 0, 0);
  pen.clearRect(0, 0, pixels, lines);
  const style = getComputedStyle(canvas);
  const colour = (name: string) => style.getPropertyValue(`--${name}`).trim();
  pen.scale(ratio, ratio);
  const most = Math.max(device.reservedMaxBytes, device.peakBytes, 1);
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
  area(curve.reservedBytes, colour('reserved'), 0.25);
  area(curve.highBytes, colour('faint'), 0.8);
  const xOf = (at: number) => (at / device.entries) * width;
  for (const mark of device.device.marks) {
    if (mark.kind !== 'oom') continue;
    pen.fillStyle = colour('danger');
    pen.fillRect(xOf(mark.entry) - 1, 0, 2, HEIGHT_CSS);
  }
  pen.fillStyle = colour('accent');
  pen.fillRect(Math.round(xOf(entry + 0.5)) - 1, 0, 2, HEIGHT_CSS);
}
