/** Stacks over time. */

import {Transferred} from '../data/rpc';
import {Problem} from '../data/source';
import type {Axis, AxisKind, AxisRange} from '../model/axis';
import {commonNode, depthsOf, type FlameChart, flameChart, SEVERAL_KEY, type Step} from '../model/flame-chart';
import {firstRowFrom, type Lifetimes} from '../model/lifetimes';
import {Newest} from '../model/newest';
import type {StackShape} from '../model/stack-shape';
import type {Stretch} from '../model/stack-weights';
import {buffersOf, type FlameRequest, type KeyWords, nodesThrough, shapeOf, wordsOf} from './flame';
import type {Session} from './session';

/** What to draw over time: of `of`, only `kept` makes a difference. */
export interface ChartRequest extends FlameRequest {
  /** The x axis; `axis` of a request without a visible stretch says nothing. */
  readonly over: AxisKind;
  /** The visible stretch of the x axis; within the selected one, if there is one. */
  readonly window: AxisRange | null;
}

/** A flame chart. */
export interface ChartOfStacks {
  readonly layout: FlameChart;
  readonly words: KeyWords;
  readonly stretch: Stretch;
  /** What is shown of the x axis. */
  readonly range: AxisRange;
  /** All of the x axis. */
  readonly whole: AxisRange;
  readonly over: AxisKind;
  /** Bytes that were allocated in each of equal parts of the range. */
  readonly bars: Float64Array;
  /** Whether neighbours were put together, for there are too many. */
  readonly isCoarse: boolean;
}

/** More allocations are put together by columns. */
const EXACT_MAX = 40_000;
const COLUMNS = 8192;
const BARS = 480;

const asked = new Newest();

/** Throws a `Problem` where a newer one was asked for meanwhile: while one zooms, only the last is made. */
export async function chartOfStacks(session: Session, request: ChartRequest): Promise<Transferred<ChartOfStacks>> {
  const isNewest = asked.begin();
  await new Promise(go => setTimeout(go));
  if (!isNewest()) throw new Problem({error: 'a newer picture was requested'});
  const [stacks, shape, axis] = await Promise.all([
    session.stacks(),
    shapeOf(session, request),
    session.axis(request.over),
  ]);
  const {lifetimes, stack} = session;
  const range = rangeOf(axis, request);
  const stretch = {from: axis.entryAt(range.from), to: Math.max(axis.entryAt(range.from) + 1, axis.entryAt(range.to))};
  const isOut = nodesThrough(shape, new Set(request.without));
  const rows = rowsIn(lifetimes, stretch, row => {
    if (isOut[shape.nodeOf[stack[row]]]) return false;
    return request.of !== 'kept' || lifetimes.end[row] >= stretch.to;
  });
  const perBar = (range.to - range.from) / BARS;
  const bars = new Float64Array(BARS);
  for (const row of rows) {
    const bar = Math.floor((axis.positionOf(lifetimes.start[row]) - range.from) / perBar);
    bars[Math.min(Math.max(bar, 0), BARS - 1)] += lifetimes.size[row] * lifetimes.unitBytes;
  }
  const isCoarse = rows.length > EXACT_MAX;
  const one = (row: number): Step => ({
    at: axis.positionOf(lifetimes.start[row]),
    node: shape.nodeOf[stack[row]],
    isSeveral: false,
    weight: lifetimes.size[row] * lifetimes.unitBytes,
    count: 1,
  });
  const steps = isCoarse ? columnsOf(rows, one, shape, range) : Array.from(rows, one);
  const layout = flameChart(shape.shape, steps, range, endOf(lifetimes, axis, range, rows));
  const words = wordsOf(stacks, shape, layout.key);
  const value = {
    layout,
    words: layout.key.includes(SEVERAL_KEY) ? withSeveral(words) : words,
    stretch,
    range,
    whole: axis.range,
    over: axis.kind,
    bars,
    isCoarse,
  };
  return new Transferred(value, [...buffersOf(layout), bars.buffer as ArrayBuffer]);
}

/** The visible part of what is selected; what is selected if none of it is visible. */
function rangeOf(axis: Axis, {selected, window}: ChartRequest): AxisRange {
  const chosen = selected ? {from: axis.positionOf(selected.from), to: axis.positionOf(selected.to)} : axis.range;
  const from = Math.max(chosen.from, window?.from ?? chosen.from);
  const to = Math.min(chosen.to, window?.to ?? chosen.to);
  const range = from < to ? {from, to} : chosen;
  return range.from < range.to ? range : {from: range.from, to: range.from + 1};
}

/** Where the last box ends: at the next allocation; if there is none, after as long as an average one. */
function endOf({start, rows}: Lifetimes, axis: Axis, range: AxisRange, shown: Uint32Array): number {
  if (shown.length === 0) return range.to;
  const last = shown[shown.length - 1];
  const at = axis.positionOf(start[last]);
  const average = Math.max(1, (at - axis.positionOf(start[shown[0]])) / shown.length);
  const end = last + 1 < rows ? axis.positionOf(start[last + 1]) : at + average;
  return Math.min(range.to, Math.max(end, at + average));
}

function rowsIn(lifetimes: Lifetimes, {from, to}: Stretch, isWanted: (row: number) => boolean): Uint32Array {
  const {start, rows, before} = lifetimes;
  const first = Math.max(before, firstRowFrom(lifetimes, from));
  const last = firstRowFrom(lifetimes, to);
  const found = new Uint32Array(Math.max(0, last - first));
  let count = 0;
  for (let row = first; row < last && row < rows && start[row] < to; row++) if (isWanted(row)) found[count++] = row;
  return found.subarray(0, count);
}

/** A step for each column in which anything was allocated: what all of it has in common. */
function columnsOf(rows: Uint32Array, one: (row: number) => Step, {shape}: StackShape, range: AxisRange): Step[] {
  const depth = depthsOf(shape);
  const perColumn = (range.to - range.from) / COLUMNS;
  const steps: Step[] = [];
  let column = -1;
  for (const row of rows) {
    const step = one(row);
    const at = Math.floor((step.at - range.from) / perColumn);
    const last = steps.length - 1;
    if (at !== column) {
      column = at;
      steps.push(step);
      continue;
    }
    const {at: began, node, isSeveral, weight, count} = steps[last];
    const common = commonNode(shape, depth, node, step.node);
    steps[last] = {
      at: began,
      node: common,
      isSeveral: isSeveral || common !== node || common !== step.node,
      weight: weight + step.weight,
      count: count + 1,
    };
  }
  return steps;
}

function withSeveral(words: KeyWords): KeyWords {
  return {
    key: Uint32Array.of(...words.key, SEVERAL_KEY),
    name: [...words.name, '… several stacks: zoom in'],
    file: [...words.file, ''],
    line: Uint32Array.of(...words.line, 0),
    owner: [...words.owner, undefined],
  };
}
