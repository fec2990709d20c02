/** Ranks over time as a picture of few numbers: a row a rank, a colour for how much there is. */

import type {AxisRange} from './axis';

/** A device of a file in equal parts of its time; `docs/viewer-data.md`. */
export interface HeatDevice {
  device: number;
  /** Of the first and the last entry, by the rank's clock; absent without times. */
  time_us?: [number, number];
  /** The entry of each part at which most is allocated. */
  entries: number[];
  /** By measure, the highest bytes of each part. */
  bytes: Record<string, number[]>;
}

/** The rows of a picture, one behind the other: what crosses to the worker. */
export interface HeatRows {
  readonly rows: number;
  /** Parts of each row. */
  readonly parts: number;
  /** By row and part. */
  readonly bytes: Float32Array;
  /** Where each part begins on the axis, and where the last ends: one more than parts in each row. */
  readonly positions: Float64Array;
}

/** What is seen of them. */
export interface HeatWindow {
  readonly width: number;
  readonly height: number;
  readonly x: AxisRange;
  readonly highBytes: number;
}

/** Measures in the order in which they are offered; categories follow, and the owners of memory outside PyTorch. */
export const MEASURES = ['reserved', 'allocated', 'outside'] as const;

/** The measures that any of the devices has. */
export function measuresOf(devices: readonly HeatDevice[]): string[] {
  const found = new Set(devices.flatMap(({bytes}) => Object.keys(bytes)));
  return [...MEASURES.filter(one => found.has(one)), ...[...found].filter(one => !MEASURES.some(m => m === one))];
}

/** A measure in words. */
export function measureWords(measure: string): string {
  if (measure === 'outside') return 'outside PyTorch';
  return measure.replace(/^outside: /, '').replace('_', ' ');
}

/** Rows of some devices in their order; `positions` gives where each part of one begins, and where the last ends. */
export function rowsOf(
  devices: readonly (HeatDevice | undefined)[],
  measure: string,
  positions: (row: number) => ArrayLike<number>,
): HeatRows {
  const parts = Math.max(1, ...devices.map(device => device?.entries.length ?? 0));
  const made = {
    rows: devices.length,
    parts,
    bytes: new Float32Array(devices.length * parts),
    positions: new Float64Array(devices.length * (parts + 1)).fill(Number.POSITIVE_INFINITY),
  };
  devices.forEach((device, row) => {
    if (!device) return;
    made.bytes.set(device.bytes[measure] ?? [], row * parts);
    made.positions.set(Array.from(positions(row)).slice(0, parts + 1), row * (parts + 1));
  });
  return made;
}

/** The part of a row at a place of the axis; -1 where it has none. */
export function partOfRow({parts, positions}: HeatRows, row: number, place: number): number {
  const first = row * (parts + 1);
  let low = 0;
  let high = parts;
  // The first part that begins beyond the place.
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (positions[first + middle] <= place) low = middle + 1;
    else high = middle;
  }
  return low === 0 || !(positions[first + low] > place) || positions[first + low] === Number.POSITIVE_INFINITY
    ? -1
    : low - 1;
}

/** The row at a place from the top of a picture. */
export function rowAt(rows: number, height: number, y: number): number {
  return Math.min(rows - 1, Math.max(0, Math.floor((y * rows) / height)));
}

/** Steps of the colour scale. */
export const STEPS = 256;

/**
 * Writes the pixels of the rows, from the top. A pixel that stands for several parts or rows has the highest of them, so that no peak is
 * lost; where a row has nothing, it has the background.
 */
export function paintHeat(
  data: HeatRows,
  {width, height, x, highBytes}: HeatWindow,
  colours: Uint32Array,
  background: number,
  out: Uint32Array,
): void {
  const {rows, parts, bytes, positions} = data;
  out.fill(background, 0, width * height);
  if (rows === 0) return;
  const perPosition = width / (x.to - x.from);
  const highest = new Float32Array(width);
  for (let y = 0; y < height; ) {
    // Lines that show the same rows, and the rows that they show.
    const row = rowAt(rows, height, y);
    const until = Math.max(y + 1, Math.min(height, Math.ceil(((row + 1) * height) / rows)));
    const last = Math.max(row, Math.ceil(((y + 1) * rows) / height) - 1);
    highest.fill(-1);
    for (let one = row; one <= last && one < rows; one++) {
      const first = one * (parts + 1);
      for (let part = 0; part < parts; part++) {
        const to = positions[first + part + 1];
        if (!(to < Number.POSITIVE_INFINITY)) break;
        if (to < x.from || positions[first + part] > x.to) continue;
        const left = Math.max(0, Math.floor((positions[first + part] - x.from) * perPosition));
        const right = Math.min(width, Math.max(left + 1, Math.ceil((to - x.from) * perPosition)));
        const value = bytes[one * parts + part];
        for (let column = left; column < right; column++) if (value > highest[column]) highest[column] = value;
      }
    }
    const line = y * width;
    for (let column = 0; column < width; column++) {
      const value = highest[column];
      if (value < 0) continue;
      out[line + column] = colours[Math.min(STEPS - 1, Math.floor((value / highBytes) * STEPS))];
    }
    for (let other = y + 1; other < until; other++) out.copyWithin(other * width, line, line + width);
    y = until;
  }
}

/** The mean of a row, over its parts. */
export function meanOf(device: HeatDevice | undefined, measure: string): number {
  const bytes = device?.bytes[measure] ?? [];
  return bytes.reduce((sum, one) => sum + one, 0) / Math.max(1, bytes.length);
}

/** The highest of a row. */
export function highestOfRow(device: HeatDevice | undefined, measure: string): number {
  return (device?.bytes[measure] ?? []).reduce((most, one) => Math.max(most, one), 0);
}
