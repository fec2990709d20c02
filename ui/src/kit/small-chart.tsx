/** A canvas with axes for what is drawn in it, at the size of the page. */

import {useEffect, useRef} from 'preact/hooks';
import {drawByteAxis, drawPositionAxis, type Ink, type Pen} from '../draw/overlay';
import {positionOfCss, type Viewport} from '../draw/viewport';
import * as store from '../state/store';
import {registerPicture} from './save';

const LEFT_CSS = 66;
const BOTTOM_CSS = 22;
const TOP_CSS = 6;
const RIGHT_CSS = 30;

interface SmallChartProps {
  readonly label: string;
  readonly x: {from: number; to: number};
  readonly highBytes: number;
  /** Draws the plot; the pen's origin is the plot's upper left corner. */
  draw(pen: Pen, viewport: Viewport, ink: SmallInk): void;
  /** Draws again if one of these changed. */
  readonly data: readonly unknown[];
  /** For the file's name, if it is to be saved. */
  readonly saveAs?: string;
  onHover?(position: number | null): void;
  onClick?(position: number): void;
  onWheel?(event: WheelEvent, position: number): void;
}

/** Colours of the theme, by the names of the style sheet. */
export type SmallInk = Ink & {bar: string; strong: string};

export function SmallChart(props: SmallChartProps) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const newest = useRef(props);
  newest.current = props;
  const shade = store.shade.value;

  const viewport = (): Viewport => ({
    widthCss: Math.max(10, (canvas.current?.clientWidth ?? 0) - LEFT_CSS - RIGHT_CSS),
    heightCss: Math.max(10, (canvas.current?.clientHeight ?? 0) - TOP_CSS - BOTTOM_CSS),
    x: newest.current.x,
    lowBytes: 0,
    highBytes: newest.current.highBytes,
  });
  const redraw = () => {
    const element = canvas.current;
    const pen = element?.getContext('2d');
    if (!element || !pen || element.clientWidth === 0) return;
    const ratio = globalThis.devicePixelRatio || 1;
    element.width = Math.round(element.clientWidth * ratio);
    element.height = Math.round(element.clientHeight * ratio);
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, element.width, element.height);
    const ink = inkOf(element);
    const seen = viewport();
    drawByteAxis(pen, seen, ink, LEFT_CSS, TOP_CSS);
    drawPositionAxis(pen, seen, ink, LEFT_CSS, TOP_CSS + seen.heightCss, 'entry');
    pen.save();
    pen.translate(LEFT_CSS, TOP_CSS);
    pen.beginPath();
    pen.rect(0, -TOP_CSS, seen.widthCss + 1, seen.heightCss + TOP_CSS);
    pen.clip();
    newest.current.draw(pen, seen, ink);
    pen.restore();
  };
  useEffect(redraw, [...props.data, props.x.from, props.x.to, props.highBytes, shade]);
  useEffect(() => {
    const observer = new ResizeObserver(redraw);
    if (canvas.current) observer.observe(canvas.current);
    return () => observer.disconnect();
  }, []);
  useEffect(() => {
    const element = canvas.current;
    const onWheel = (event: WheelEvent) => newest.current.onWheel?.(event, positionAt(event));
    if (props.onWheel) element?.addEventListener('wheel', onWheel, {passive: false});
    return () => element?.removeEventListener('wheel', onWheel);
  }, []);

  useEffect(() => {
    const {saveAs} = props;
    if (saveAs !== undefined) return registerPicture(() => ({canvas: onPlot(canvas.current!), name: saveAs}));
  }, []);

  const positionAt = (event: MouseEvent) => {
    const box = canvas.current!.getBoundingClientRect();
    const seen = viewport();
    const x = Math.min(Math.max(event.clientX - box.left - LEFT_CSS, 0), seen.widthCss);
    return positionOfCss(seen, x);
  };
  return (
    <canvas
      ref={canvas}
      class="small-chart"
      role="img"
      aria-label={props.label}
      onPointerMove={event => props.onHover?.(positionAt(event))}
      onPointerLeave={() => props.onHover?.(null)}
      onClick={event => props.onClick?.(positionAt(event))}
    />
  );
}

/** A copy on the plot's background. */
function onPlot(canvas: HTMLCanvasElement): HTMLCanvasElement {
  const copy = document.createElement('canvas');
  copy.width = canvas.width;
  copy.height = canvas.height;
  const pen = copy.getContext('2d')!;
  pen.fillStyle = getComputedStyle(canvas).getPropertyValue('--plot').trim();
  pen.fillRect(0, 0, copy.width, copy.height);
  pen.drawImage(canvas, 0, 0);
  return copy;
}

function inkOf(element: HTMLElement): SmallInk {
  const style = getComputedStyle(element);
  const colour = (name: string) => style.getPropertyValue(`--${name}`).trim();
  return {
    text: colour('text'),
    faint: colour('faint'),
    grid: colour('grid'),
    reserved: colour('reserved'),
    capacity: colour('capacity'),
    danger: colour('danger'),
    accent: colour('accent'),
    background: colour('panel'),
    bar: colour('bar'),
    strong: colour('bar-strong'),
  };
}
