/** The simulated timelines as lines of a chart. */

import type {Pen} from '../../draw/overlay';
import {LEADING} from '../../draw/palette';
import {cssOfBytes, cssOfPosition, positionOfCss, type Viewport} from '../../draw/viewport';
import {StepSeries} from '../../model/steps';
import {binary} from '../../model/units';
import {confWords, type SimulatedTimeline} from './simulation';

/** One line. */
export interface Line {
  readonly id: string;
  readonly label: string;
  readonly colour: string;
  /** Lines differ in more than colour. */
  readonly dash: readonly number[];
  readonly steps: StepSeries;
  readonly oomEntry: number | undefined;
  readonly capacityBytes: number | null;
}

const DASHES = [[], [7, 3], [2, 2], [9, 3, 2, 3]] as const;
/** Colours that are told apart on light and on dark. */
const COLOURS = [LEADING[1], LEADING[2], LEADING[4], LEADING[5], LEADING[6], LEADING[11], LEADING[8], LEADING[7]];

/** What a timeline is known by. */
export function lineId({conf, capacity_bytes: capacity}: {conf: string; capacity_bytes: number | null}): string {
  return `${conf}@${capacity ?? ''}`;
}

export function linesOf(timelines: readonly SimulatedTimeline[]): Line[] {
  return timelines.map((timeline, i) => ({
    id: lineId(timeline),
    label:
      timeline.capacity_bytes === null
        ? confWords(timeline.conf)
        : `${confWords(timeline.conf)} with ${binary(timeline.capacity_bytes)}`,
    colour: COLOURS[i % COLOURS.length],
    dash: DASHES[Math.floor(i / COLOURS.length + i) % DASHES.length],
    steps: new StepSeries(Uint32Array.from(timeline.entries), Float64Array.from(timeline.reserved_bytes)),
    oomEntry: timeline.oom_entry,
    capacityBytes: timeline.capacity_bytes,
  }));
}

/** The highest value of a line within each CSS pixel of a viewport: no step is lost, however many there are. */
export function columnsOf({steps, oomEntry}: Line, viewport: Viewport, entries: number): Float64Array {
  const width = Math.max(1, Math.floor(viewport.widthCss));
  const columns = new Float64Array(width).fill(Number.NaN);
  for (let column = 0; column < width; column++) {
    const from = Math.floor(positionOfCss(viewport, (column * viewport.widthCss) / width));
    const to = Math.max(from + 1, Math.floor(positionOfCss(viewport, ((column + 1) * viewport.widthCss) / width)));
    if (from >= entries || (oomEntry !== undefined && from > oomEntry)) break;
    columns[column] = steps.maxIn(Math.max(0, from), to);
  }
  return columns;
}

export function drawLine(pen: Pen, viewport: Viewport, line: Line, entries: number, danger: string): void {
  const columns = columnsOf(line, viewport, entries);
  pen.strokeStyle = line.colour;
  pen.lineWidth = 2;
  pen.setLineDash([...line.dash]);
  pen.beginPath();
  let last = Number.NaN;
  let end = 0;
  for (let x = 0; x < columns.length && !Number.isNaN(columns[x]); x++) {
    const y = cssOfBytes(viewport, columns[x]);
    if (Number.isNaN(last)) pen.moveTo(x, y);
    else if (y !== last) {
      pen.lineTo(x, last);
      pen.lineTo(x, y);
    }
    last = y;
    end = x + 1;
  }
  if (!Number.isNaN(last)) pen.lineTo(end, last);
  pen.stroke();
  pen.setLineDash([]);
  pen.lineWidth = 1;
  if (line.oomEntry === undefined) return;
  const x = cssOfPosition(viewport, line.oomEntry);
  if (x < 0 || x > viewport.widthCss) return;
  drawCross(pen, x, cssOfBytes(viewport, line.steps.at(line.oomEntry)), danger);
}

/** Where a run ends: a request failed. */
function drawCross(pen: Pen, x: number, y: number, colour: string): void {
  pen.strokeStyle = colour;
  pen.lineWidth = 2.5;
  pen.beginPath();
  pen.moveTo(x - 5, y - 5);
  pen.lineTo(x + 5, y + 5);
  pen.moveTo(x - 5, y + 5);
  pen.lineTo(x + 5, y - 5);
  pen.stroke();
  pen.lineWidth = 1;
}
