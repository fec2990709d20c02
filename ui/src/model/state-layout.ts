/**
 * Where segments lie in the picture of a state: in strips of one height, as long as their memory, packed left to right,
 * pool by pool. A segment longer than the picture is wide goes on in the next strip.
 *
 * All lengths are in device pixels, offsets in units of the device's sizes.
 */

/** A segment to be laid out. */
export interface StateSegment {
  readonly segment: number;
  /** Its extent. */
  readonly units: number;
  /** Segments of a group lie together, under a heading. */
  readonly group: number;
}

/** A stretch of a segment in one strip. */
export interface Strip {
  readonly segment: number;
  readonly x: number;
  readonly y: number;
  readonly width: number;
  /** The stretch: units from the segment's first byte. */
  readonly fromUnits: number;
  readonly toUnits: number;
}

/**
 * Numbers of a strip where all are in one column: its segment, x, y, width, and the place of its first pixel's id. An object a strip, of
 * which there can be a thousand, would be garbage in every frame.
 */
export const STRIP_NUMBERS = 5;

/** The words over a group. */
export interface Heading {
  readonly group: number;
  readonly y: number;
}

/** Everything's place. */
export interface StateLayout {
  readonly strips: Strip[];
  readonly headings: Heading[];
  readonly height: number;
}

/** The measures of a layout. */
export interface StateMeasures {
  readonly width: number;
  readonly stripHeight: number;
  readonly gap: number;
  readonly headingHeight: number;
  /** No segment is narrower. */
  readonly widthMin: number;
}

/** Lays out segments, which are in order of their groups. */
export function layOut(segments: readonly StateSegment[], unitsPerPixel: number, measures: StateMeasures): StateLayout {
  const {width, stripHeight, gap, headingHeight, widthMin} = measures;
  const strips: Strip[] = [];
  const headings: Heading[] = [];
  let x = 0;
  let y = 0;
  let group: number | undefined;
  const nextStrip = () => {
    x = 0;
    y += stripHeight + gap;
  };
  for (const {segment, units, group: own} of segments) {
    if (own !== group) {
      if (x > 0) nextStrip();
      headings.push({group: own, y});
      y += headingHeight;
      group = own;
    }
    const length = Math.max(widthMin, Math.ceil(units / unitsPerPixel));
    if (length <= width) {
      if (x + length > width) nextStrip();
      strips.push({segment, x, y, width: length, fromUnits: 0, toUnits: units});
      x += length + gap;
      continue;
    }
    if (x > 0) nextStrip();
    for (let from = 0; from < units; from += width * unitsPerPixel) {
      if (from > 0) nextStrip();
      const to = Math.min(units, from + width * unitsPerPixel);
      const part = Math.max(widthMin, Math.ceil((to - from) / unitsPerPixel));
      strips.push({segment, x: 0, y, width: Math.min(part, width), fromUnits: from, toUnits: to});
      x = part + gap;
    }
  }
  if (x > 0) y += stripHeight;
  return {strips, headings, height: y};
}

/** The finest scale at which everything fits a height; units in a pixel. */
export function fittingScale(segments: readonly StateSegment[], height: number, measures: StateMeasures): number {
  const all = segments.reduce((sum, {units}) => sum + units, 0);
  let low = Math.max(1e-6, all / (measures.width * Math.max(1, height)));
  let high = Math.max(low, all / measures.width, 1e-6) * 2;
  // Bisected on a scale of ratios: sixteen steps tell it to a part in a thousand.
  for (let i = 0; i < 16; i++) {
    const middle = Math.sqrt(low * high);
    if (layOut(segments, middle, measures).height <= height) high = middle;
    else low = middle;
  }
  return high;
}
