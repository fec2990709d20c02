/** One recording as a small picture: made when it comes into view. */

import {useSignal} from '@preact/signals';
import {useEffect, useRef} from 'preact/hooks';
import type {Curve} from '../../data/curves';
import {drawCurve, drawMarker} from '../../draw/curve';
import type {Viewport} from '../../draw/viewport';
import {cssOfPosition, positionOfCss} from '../../draw/viewport';
import {type Aligned, type Alignment, aligned, iterationAt, partAt} from '../../model/alignment';
import {binary, percent, signed} from '../../model/units';
import {dataSource} from '../../state/session';
import * as store from '../../state/store';
import {onWheel, pointed} from './linked';
import type {Rank} from './overview';

/** Parts of a small picture. */
const PARTS = 300;

interface TileProps {
  readonly rank: Rank;
  readonly alignment: Alignment;
  readonly x: {from: number; to: number};
  readonly whole: {from: number; to: number};
  readonly highBytes: number;
  readonly medianBytes: number;
  readonly isOutlier: boolean;
  readonly isOpen: boolean;
  readonly showsDevice: boolean;
  /** Opens it after an entry. */
  open(rank: Rank, entry: number | null): void;
}

export function Tile(props: TileProps) {
  const {rank, alignment, x, highBytes, medianBytes, isOutlier, isOpen} = props;
  const {curve} = rank;
  const host = useRef<HTMLButtonElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const picture = useSignal<Aligned | null>(null);
  const isOver = useSignal(false);
  const hover = pointed;
  const shade = store.shade.value;

  useEffect(() => {
    const abort = new AbortController();
    const observer = new IntersectionObserver(
      entries => {
        if (!entries.some(({isIntersecting}) => isIntersecting)) return;
        observer.disconnect();
        void read(rank, abort.signal).then(read => {
          if (read) picture.value = aligned(read, alignment);
        });
      },
      {rootMargin: '120px'},
    );
    if (host.current) observer.observe(host.current);
    return () => {
      observer.disconnect();
      abort.abort();
    };
  }, [rank.file, curve.device, alignment]);

  const viewport = (): Viewport => ({
    widthCss: Math.max(1, canvas.current?.clientWidth ?? 0),
    heightCss: Math.max(1, canvas.current?.clientHeight ?? 0),
    x,
    lowBytes: 0,
    highBytes,
  });
  const redraw = () => {
    const element = canvas.current;
    const pen = element?.getContext('2d');
    const made = picture.value;
    if (!element || !pen || !made || element.clientWidth === 0) return;
    const ratio = globalThis.devicePixelRatio || 1;
    element.width = Math.round(element.clientWidth * ratio);
    element.height = Math.round(element.clientHeight * ratio);
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    const style = getComputedStyle(element);
    const colour = (name: string) => style.getPropertyValue(`--${name}`).trim();
    const seen = viewport();
    drawCurve(pen, seen, made, colour(isOutlier ? 'capacity' : 'bar-strong'), colour('reserved'));
    const placeOf = (entry: number) => cssOfPosition(seen, placeOfEntry(curve, alignment, entry));
    drawMarker(pen, placeOf(curve.peak.entry), colour('accent'));
    for (const entry of curve.ooms) drawMarker(pen, placeOf(entry), colour('danger'));
    element.dataset.drawn = 'true';
  };
  useEffect(redraw, [picture.value, x.from, x.to, highBytes, shade, isOutlier]);
  useEffect(() => {
    const observer = new ResizeObserver(redraw);
    if (canvas.current) observer.observe(canvas.current);
    return () => observer.disconnect();
  }, [picture.value, x.from, x.to, highBytes, shade, isOutlier]);

  useEffect(() => {
    const element = canvas.current;
    const turned = (event: WheelEvent) => onWheel(event, props.whole, positionAt(event));
    element?.addEventListener('wheel', turned, {passive: false});
    return () => element?.removeEventListener('wheel', turned);
  }, [props.whole.from, props.whole.to, x.from, x.to]);

  const positionAt = (event: MouseEvent) =>
    positionOfCss(viewport(), event.clientX - canvas.current!.getBoundingClientRect().left);
  const difference = curve.peak.bytes - medianBytes;
  const part = hover.value === null || !picture.value ? -1 : partAt(picture.value, hover.value);
  const share = hover.value === null ? null : (hover.value - x.from) / (x.to - x.from);
  const name = props.showsDevice ? `${rank.name}, device ${curve.device}` : rank.name;
  return (
    <button
      type="button"
      ref={host}
      class={`rank${isOutlier ? ' outlier' : ''}${isOpen ? ' open' : ''}`}
      aria-label={`${name}: peak ${binary(curve.peak.bytes)}${curve.ooms.length > 0 ? ', ran out of memory' : ''}. Open it`}
      onPointerMove={event => {
        hover.value = positionAt(event);
        isOver.value = true;
      }}
      onPointerLeave={() => {
        hover.value = null;
        isOver.value = false;
      }}
      onClick={event => {
        // A key has no place in the picture.
        const isInside = event.detail > 0 && part >= 0;
        props.open(rank, isInside ? entryOfPart(curve, part) : null);
      }}
    >
      <span class="rank-head">
        <b>{name}</b>
        {curve.ooms.length > 0 && <span class="danger">out of memory</span>}
        <span class="spring" />
        {part >= 0 ? (
          <span class="faint">{binary(picture.value!.curve.bytes[part])}</span>
        ) : (
          <span>
            {binary(curve.peak.bytes)}{' '}
            {medianBytes > 0 && Math.round((1000 * difference) / medianBytes) !== 0 && (
              <span class="faint" title={`${signed(difference)} from the median`}>
                {difference > 0 ? '+' : '−'}
                {percent(Math.abs(difference) / medianBytes)}
              </span>
            )}
          </span>
        )}
      </span>
      <span class="rank-picture">
        <canvas ref={canvas} />
        {share !== null && share >= 0 && share <= 1 && (
          <i class={isOver.value ? 'heat-cursor' : 'heat-cursor faint'} style={{left: `${share * 100}%`}} />
        )}
      </span>
    </button>
  );
}

/** Where an entry lies on the axis that all share. */
export function placeOfEntry(curve: Curve, alignment: Alignment, entry: number): number {
  return alignment === 'iteration' ? iterationAt(curve, entry) : entry;
}

/** The first entry of a part of the small picture. */
function entryOfPart(curve: Curve, part: number): number {
  return Math.ceil((part * curve.entries) / Math.min(PARTS, curve.entries));
}

async function read({file, curve}: Rank, signal: AbortSignal): Promise<Curve | undefined> {
  try {
    const {devices} = await dataSource().curves(file, PARTS, signal);
    return devices.find(({device}) => device === curve.device);
  } catch {
    // Its numbers are there; without the picture the tile stays empty.
    return undefined;
  }
}
