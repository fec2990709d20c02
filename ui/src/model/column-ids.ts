/**
 * One pixel column of a stacked picture: which band each pixel shows.
 *
 * An id is a row plus one, 0 is none; its top bits say what else the pixel is. A pixel shows the band that covers most of
 * it.
 */

/** The row of an id, plus one. */
export const ID_MASK = 0x3fff_ffff;
/** Several bands share the pixel. */
export const ID_SHARED = 0x8000_0000;
/** Of an allocation: it awaits its free. Of a segment: the part that is free. */
export const ID_IDLE = 0x4000_0000;

/** The bands of a column, lowest first. */
export interface Bands {
  /** At least `count` long. */
  readonly ids: Uint32Array;
  /** The thickness of each. */
  readonly units: Float64Array;
  readonly count: number;
}

/** The stretch of the y axis that a column shows, in units. */
export interface UnitWindow {
  /** At the lower edge. */
  readonly low: number;
  readonly perPixel: number;
}

/** Writes the ids of a column of `height` pixels to `out`, from `at` on, lowest first. */
export function fillColumn(bands: Bands, out: Uint32Array, at: number, height: number, window: UnitWindow): void {
  const {ids, units, count} = bands;
  const scale = 1 / window.perPixel;
  // Summed in units, so that no rounding piles up; `bottom` and `top` are in pixels above the lower edge.
  let sum = -window.low;
  let bottom = sum * scale;
  let pixel = 0;
  let sharers = 0;
  let bestId = 0;
  let bestCover = 0;
  for (let i = 0; i < count && pixel < height; i++) {
    sum += units[i];
    const top = sum * scale;
    if (top > 0 && top > bottom) {
      const id = ids[i];
      const low = Math.max(bottom, 0);
      if (top < pixel + 1) {
        sharers++;
        if (top - low > bestCover) {
          bestCover = top - low;
          bestId = id;
        }
      } else {
        if (pixel + 1 - low > bestCover) bestId = id;
        out[at + pixel++] = sharers > 0 ? bestId | ID_SHARED : bestId;
        const whole = Math.min(Math.floor(top), height);
        while (pixel < whole) out[at + pixel++] = id;
        bestCover = top - pixel;
        sharers = bestCover > 0 ? 1 : 0;
        bestId = id;
      }
    }
    bottom = top;
  }
  if (pixel < height && sharers > 0) out[at + pixel++] = sharers > 1 ? bestId | ID_SHARED : bestId;
  out.fill(0, at + pixel, at + height);
}

/** Room for bands, used again for every column. */
export class BandList implements Bands {
  ids = new Uint32Array(1024);
  units = new Float64Array(1024);
  count = 0;

  clear(): void {
    this.count = 0;
  }

  /** Leaves out those whose id does not hold; the order stays. */
  keep(holds: (id: number) => boolean): void {
    const {ids, units} = this;
    let kept = 0;
    for (let i = 0; i < this.count; i++) {
      if (!holds(ids[i])) continue;
      ids[kept] = ids[i];
      units[kept++] = units[i];
    }
    this.count = kept;
  }

  push(id: number, units: number): void {
    if (this.count === this.ids.length) this.reserve(this.count + 1);
    this.ids[this.count] = id;
    this.units[this.count++] = units;
  }

  /** Makes room for so many bands in all. */
  reserve(count: number): void {
    if (count <= this.ids.length) return;
    const {ids, units} = this;
    this.ids = new Uint32Array(Math.max(count, ids.length * 2));
    this.ids.set(ids);
    this.units = new Float64Array(this.ids.length);
    this.units.set(units);
  }
}
