/** Ranks × time: a row a rank, its colour how much there is. */

import {useSignal} from '@preact/signals';
import {ticks} from 'd3-array';
import {useEffect, useMemo, useRef} from 'preact/hooks';
import {hexOf, sizeColour} from '../../draw/palette';
import {type Alignment, iterationAt} from '../../model/alignment';
import type {AxisRange} from '../../model/axis';
import {type HeatDevice, highestOfRow, measureWords, partOfRow, rowAt, rowsOf} from '../../model/heat';
import {binary} from '../../model/units';
import {engine} from '../../state/session';
import * as store from '../../state/store';
import {onWheel, pointed, stretch} from './linked';
import type {Rank} from './overview';

/** Rows are no lower than this, and no higher; in CSS pixels. */
const LOWEST = 2;
const HIGHEST = 22;
/** The height that rows share where there are not too many. */
const SHARED = 560;
/** Room for names, where rows have it: a part of the width, and no more than they need. */
const NAMES_MAX = '32%';
/** Rows of this height have room for a name. */
const NAMED = 12;

interface HeatMapProps {
  readonly ranks: readonly Rank[];
  readonly alignment: Alignment;
  readonly whole: AxisRange;
  readonly heats: ReadonlyMap<string, HeatDevice>;
  readonly measure: string;
  /** Opens a rank after an entry. */
  open(rank: Rank, entry: number): void;
}

/** The colours from nothing to the highest, in a few steps. */
function stops(): string[] {
  const count = 9;
  return Array.from({length: count}, (_, step) => hexOf(sizeColour(step, count)));
}

/** The key of a device of a file: of its number, or of its name. */
export function keyOf(file: number | string, device: number): string {
  return `${file} ${device}`;
}

/** Where the parts of a rank begin on the axis, and where the last ends. */
function positionsOf({curve}: Rank, device: HeatDevice, alignment: Alignment): number[] {
  const end = curve.entries;
  const entries = [...device.entries.map((entry, part) => (part === 0 ? 0 : entry)), end];
  return alignment === 'iteration' ? entries.map(entry => iterationAt(curve, entry)) : entries;
}

export function HeatMap({ranks, alignment, whole, heats, measure, open}: HeatMapProps) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const chosen = useSignal<{row: number; part: number} | null>(null);
  const shade = store.shade.value;
  const x = stretch.value ?? whole;
  const devices = ranks.map(rank => heats.get(keyOf(rank.file, rank.curve.device)));
  const rows = useMemo(
    () => rowsOf(devices, measure, row => positionsOf(ranks[row], devices[row]!, alignment)),
    [ranks, heats, measure, alignment],
  );
  const highBytes = useMemo(
    () => Math.max(1, ...devices.map(device => highestOfRow(device, measure))),
    [ranks, heats, measure],
  );
  const rowCss = Math.min(HIGHEST, Math.max(LOWEST, SHARED / Math.max(1, ranks.length)));
  const heightCss = Math.max(1, Math.round(rowCss * ranks.length));
  const hasNames = rowCss >= NAMED;
  const names = `min(${Math.max(0, ...ranks.map(({name}) => name.length)) + 2}ch, ${NAMES_MAX})`;
  const drawing = useRef<Promise<void>>(Promise.resolve());
  const newest = useRef(0);

  useEffect(() => {
    // Columns are copied, for the page needs them to say what is pointed at.
    void engine().keepHeat(rows);
  }, [rows]);

  const draw = () => {
    const element = canvas.current;
    if (!element || element.clientWidth === 0) return;
    const ratio = globalThis.devicePixelRatio || 1;
    const [width, height] = [element.clientWidth, heightCss].map(css => Math.max(1, Math.round(css * ratio)));
    const own = ++newest.current;
    drawing.current = drawing.current.then(async () => {
      // Of many that are asked for while one is made, the last is enough.
      if (own !== newest.current) return;
      const bitmap = await engine().heat({width, height, x, highBytes, shade});
      if (element.width !== width || element.height !== height) Object.assign(element, {width, height});
      const pen = element.getContext('2d')!;
      pen.drawImage(bitmap, 0, 0);
      bitmap.close();
      element.dataset.drawn = `${rows.rows}`;
    });
  };
  useEffect(draw, [rows, x.from, x.to, highBytes, shade, heightCss]);
  useEffect(() => {
    const observer = new ResizeObserver(draw);
    if (canvas.current) observer.observe(canvas.current);
    return () => observer.disconnect();
  }, [rows, x.from, x.to, highBytes, shade, heightCss]);
  useEffect(() => {
    const element = canvas.current;
    const turned = (event: WheelEvent) => onWheel(event, whole, placeAt(event));
    element?.addEventListener('wheel', turned, {passive: false});
    return () => element?.removeEventListener('wheel', turned);
  }, [whole.from, whole.to]);

  const placeAt = (event: MouseEvent) => {
    const box = canvas.current!.getBoundingClientRect();
    const seen = stretch.peek() ?? whole;
    const share = Math.min(1, Math.max(0, (event.clientX - box.left) / Math.max(1, box.width)));
    return seen.from + share * (seen.to - seen.from);
  };
  const point = (event: PointerEvent | MouseEvent) => {
    const box = canvas.current!.getBoundingClientRect();
    const place = placeAt(event);
    const row = rowAt(ranks.length, box.height, event.clientY - box.top);
    pointed.value = place;
    chosen.value = {row, part: partOfRow(rows, row, place)};
  };
  const openChosen = () => {
    const at = chosen.value;
    const device = at && devices[at.row];
    if (device && at.part >= 0) open(ranks[at.row], device.entries[at.part]);
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const step = {ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1]}[event.key];
    if (event.key === 'Enter') return openChosen();
    if (!step || event.shiftKey) return;
    event.preventDefault();
    const at = chosen.value ?? {row: 0, part: 0};
    const row = Math.min(ranks.length - 1, Math.max(0, at.row + step[0]));
    const part = Math.min(rows.parts - 1, Math.max(0, at.part + step[1]));
    chosen.value = {row, part};
    const place = rows.positions[row * (rows.parts + 1) + part];
    if (Number.isFinite(place)) pointed.value = place;
  };
  const at = chosen.value;
  const value = at && at.part >= 0 ? rows.bytes[at.row * rows.parts + at.part] : undefined;
  const left = pointed.value === null ? null : (pointed.value - x.from) / (x.to - x.from);
  return (
    <div class="heat card">
      <p class="heat-said" aria-live="polite">
        {at ? (
          <>
            <b>{ranks[at.row].name}</b>{' '}
            {value === undefined ? 'nothing recorded there' : `${binary(value)} ${measureWords(measure)}`}
            {value !== undefined && (
              <span class="faint">
                {' '}
                {alignment} {placeText(pointed.value ?? 0, alignment === 'iteration' ? 1 : 0)}; click to open
              </span>
            )}
          </>
        ) : (
          <span class="faint">Point at a rank; Ctrl and the wheel zoom all pictures</span>
        )}
        <span class="spring" />
        {stretch.value && (
          <button
            type="button"
            onClick={() => {
              stretch.value = null;
            }}
          >
            whole axis
          </button>
        )}
      </p>
      <div class="heat-plot" style={hasNames ? {gridTemplateColumns: `${names} 1fr`} : undefined}>
        {hasNames && (
          <div class="heat-names" style={{gridAutoRows: `${rowCss}px`}}>
            {ranks.map(rank => (
              <span key={keyOf(rank.file, rank.curve.device)} title={rank.name}>
                <bdi>{rank.name}</bdi>
              </span>
            ))}
          </div>
        )}
        <div class="heat-picture">
          <canvas
            ref={canvas}
            tabIndex={0}
            role="img"
            aria-label={`Ranks over time, coloured by ${measureWords(measure)}: ${ranks.length} rows. Arrows choose, Enter opens`}
            style={{height: `${heightCss}px`}}
            onPointerMove={point}
            onPointerLeave={() => {
              pointed.value = null;
              chosen.value = null;
            }}
            onClick={event => {
              point(event);
              openChosen();
            }}
            onKeyDown={onKeyDown}
          />
          {left !== null && left >= 0 && left <= 1 && <i class="heat-cursor" style={{left: `${left * 100}%`}} />}
          {at && <i class="heat-row" style={{top: `${at.row * rowCss}px`, height: `${Math.max(rowCss, 3)}px`}} />}
        </div>
      </div>
      <p class="heat-axis faint" style={hasNames ? {marginLeft: names} : undefined}>
        {placesOf(x, alignment).map(place => (
          <span key={place} style={{'--part': `${(100 * (place - x.from)) / (x.to - x.from)}%`}}>
            {placeText(place, 6)}
          </span>
        ))}
      </p>
      <p class="heat-legend faint">
        <span>{alignment} from left to right; colour:</span>
        <span class="heat-scale">
          0
          <i style={{background: `linear-gradient(90deg, ${stops().join(', ')})`}} />
          {binary(highBytes)}
        </span>
      </p>
    </div>
  );
}

/** Round places along the axis: whole entries, and whole iterations or parts of one. */
function placesOf({from, to}: AxisRange, alignment: Alignment): number[] {
  return ticks(from, to, 5).filter(place => alignment === 'iteration' || Number.isInteger(place));
}

function placeText(place: number, maximumFractionDigits: number): string {
  return place.toLocaleString('en', {maximumFractionDigits}).replace('-', '−');
}
