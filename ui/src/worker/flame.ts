/** Flame graphs and tables of stacks. */

import {Transferred} from '../data/rpc';
import type {AxisKind, AxisRange} from '../model/axis';
import {type FlameLayout, layOut} from '../model/flame-layout';
import {
  calleesOf,
  callersOf,
  type FlameTree,
  inverted,
  type KeyTotals,
  totalsByKey,
  weighed as weighedTree,
} from '../model/flame-tree';
import {FOLDED_WORDS, type Fold, type StackShape, stackShape} from '../model/stack-shape';
import {allocatedIn, lifetimesIn, type StackWeights, type Stretch, weightsOf} from '../model/stack-weights';
import {OWNERS, type Owner, type Stacks} from '../model/stacks';
import type {Weighing} from '../model/weighing';
import type {Session} from './session';

/** What to weigh, and how to show it. */
export interface FlameRequest {
  readonly of: Weighing;
  /** The entry of `live`. */
  readonly entry: number;
  /** The selected stretch of entries; without one, what is visible; without that, all. */
  readonly selected: Stretch | null;
  readonly visible: AxisRange | null;
  readonly axis: AxisKind;
  readonly fold: Fold;
  /** Leaves out a frame that is already among its callers. */
  readonly collapses: boolean;
  readonly isInverted: boolean;
  /** Keys: stacks that pass through one of them are left out. */
  readonly without: readonly number[];
}

/** What sums are in. */
export type WeightUnit = 'bytes' | 'byte-entries' | 'byte-seconds';

/** What was weighed. */
export interface Weighed {
  readonly unit: WeightUnit;
  readonly stretch: Stretch;
  /** The entry after which it is, of `live` and `highest`. */
  readonly entry?: number;
}

/** The words for keys, by the same places. */
export interface KeyWords {
  readonly key: Uint32Array;
  readonly name: string[];
  readonly file: string[];
  /** 0 if it has none. */
  readonly line: Uint32Array;
  /** `undefined` for what is no frame. */
  readonly owner: (Owner | undefined)[];
}

/** A flame graph. */
export interface Flame extends Weighed {
  readonly layout: FlameLayout;
  readonly words: KeyWords;
}

/** All frames, with sums. */
export interface FrameTableRows extends Weighed {
  readonly totals: KeyTotals;
  readonly words: KeyWords;
  /** Of everything. */
  readonly all: {weight: number; count: number};
}

/** A frame's callers and callees: both have the frame as their root. */
export interface AroundFrame {
  readonly callers: FlameLayout;
  readonly callees: FlameLayout;
  readonly words: KeyWords;
}

export async function flameGraph(session: Session, request: FlameRequest): Promise<Transferred<Flame>> {
  const {tree, stacks, shape, weighed} = await treeOf(session, request);
  const layout = layOut(request.isInverted ? inverted(tree) : tree);
  const words = wordsOf(stacks, shape, layout.key);
  return new Transferred({layout, words, ...weighed}, buffersOf(layout));
}

export async function frameTable(session: Session, request: FlameRequest): Promise<FrameTableRows> {
  const {tree, stacks, shape, weighed} = await treeOf(session, request);
  const totals = totalsByKey(tree);
  const all = {weight: tree.total[0], count: tree.totalCount[0]};
  return {totals, words: wordsOf(stacks, shape, totals.key), all, ...weighed};
}

export async function aroundFrame(
  session: Session,
  request: FlameRequest,
  key: number,
): Promise<Transferred<AroundFrame>> {
  const {tree, stacks, shape} = await treeOf(session, request);
  const callers = layOut(callersOf(tree, key));
  const callees = layOut(calleesOf(tree, key));
  const keys = new Set([key, ...callers.key, ...callees.key]);
  const words = wordsOf(stacks, shape, Uint32Array.from(keys));
  return new Transferred({callers, callees, words}, [...buffersOf(callers), ...buffersOf(callees)]);
}

/** `main;forward;linear 1024`: one line per stack, as flamegraph.pl and speedscope read them. */
export async function foldedLines(session: Session, request: FlameRequest): Promise<string> {
  const {tree, stacks, shape} = await treeOf(session, request);
  const words = wordsOf(stacks, shape, tree.key);
  const wordsByKey = new Map(Array.from(words.key, (key, i) => [key, lineOf(words, i)]));
  const lines: string[] = [];
  for (let node = 1; node < tree.parent.length; node++) {
    if (tree.self[node] === 0) continue;
    const path: string[] = [];
    for (let up = node; up !== 0; up = tree.parent[up]) path.push(wordsByKey.get(tree.key[up]) ?? '?');
    lines.push(`${path.reverse().join(';')} ${Math.round(tree.self[node])}`);
  }
  return lines.join('\n');
}

function lineOf({name, file, line}: KeyWords, i: number): string {
  const place = file[i] ? ` (${file[i]}${line[i] ? `:${line[i]}` : ''})` : '';
  return `${name[i]}${place}`.replaceAll(';', ',').replaceAll('\n', ' ');
}

interface Treed {
  readonly tree: FlameTree;
  readonly stacks: Stacks;
  readonly shape: StackShape;
  readonly weighed: Weighed;
}

/** The last tree of each session: flame graph, table and what is around a frame ask for the same one. */
const last = new WeakMap<Session, {key: string; made: Promise<Treed>}>();

function treeOf(session: Session, request: FlameRequest): Promise<Treed> {
  const key = JSON.stringify({...request, isInverted: false});
  const known = last.get(session);
  if (known?.key === key) return known.made;
  const made = makeTree(session, request);
  last.set(session, {key, made});
  made.catch(() => last.delete(session));
  return made;
}

/** The tree of all stacks, as a request shows it. */
export async function shapeOf(session: Session, {fold, collapses}: FlameRequest): Promise<StackShape> {
  const stacks = await session.stacks();
  return session.once(`shape-${fold}-${collapses}`, async () => stackShape(stacks, fold, collapses));
}

async function makeTree(session: Session, request: FlameRequest): Promise<Treed> {
  const stacks = await session.stacks();
  const shape = await shapeOf(session, request);
  const {weights, ...weighedAs} = await weigh(session, request, stacks.count);
  const nodes = shape.shape.parent.length;
  const self = new Float64Array(nodes);
  const selfCount = new Float64Array(nodes);
  const scale = session.lifetimes.unitBytes / (weighedAs.unit === 'byte-seconds' ? 1e6 : 1);
  const isOut = nodesThrough(shape, new Set(request.without));
  for (let stack = 0; stack < stacks.count; stack++) {
    if (isOut[shape.nodeOf[stack]]) continue;
    self[shape.nodeOf[stack]] += weights.weight[stack] * scale;
    selfCount[shape.nodeOf[stack]] += weights.count[stack];
  }
  return {tree: weighedTree(shape.shape, self, selfCount), stacks, shape, weighed: weighedAs};
}

/** For each node, whether it or what called it has one of some keys. */
export function nodesThrough({shape: {parent, key}}: StackShape, keys: ReadonlySet<number>): Uint8Array {
  const through = new Uint8Array(parent.length);
  if (keys.size === 0) return through;
  // Parents come first.
  for (let node = 1; node < parent.length; node++)
    through[node] = through[parent[node]] || (keys.has(key[node]) ? 1 : 0);
  return through;
}

async function weigh(
  session: Session,
  request: FlameRequest,
  stacks: number,
): Promise<Weighed & {weights: StackWeights}> {
  const {lifetimes, stack, index, device} = session;
  const stretch = await stretchOf(session, request);
  switch (request.of) {
    case 'live':
    case 'highest': {
      const entry = request.of === 'live' ? request.entry : index.highestIn(stretch.from, stretch.to).entry;
      const weights = weightsOf(stacks, stack, lifetimes.size, see => {
        for (const row of index.liveAt(entry)) see(row);
      });
      return {weights, unit: 'bytes', stretch, entry};
    }
    case 'allocated':
    case 'kept': {
      const weights = allocatedIn(lifetimes, stacks, stack, stretch, request.of === 'kept');
      return {weights, unit: 'bytes', stretch};
    }
    case 'byte-time': {
      const times = device.time_us ? await session.times() : undefined;
      const weights = lifetimesIn(lifetimes, stacks, stack, stretch, times);
      return {weights, unit: times ? 'byte-seconds' : 'byte-entries', stretch};
    }
  }
}

export async function stretchOf(session: Session, {selected, visible, axis: kind}: FlameRequest): Promise<Stretch> {
  const {entries} = session.lifetimes;
  if (selected && selected.from < entries) return {from: selected.from, to: Math.min(selected.to, entries)};
  if (!visible) return {from: 0, to: entries};
  const axis = await session.axis(kind);
  const from = Math.min(axis.entryAt(visible.from), entries - 1);
  return {from, to: Math.max(from + 1, Math.min(axis.entryAt(visible.to), entries))};
}

/** The words for keys; a key that comes twice has them once. */
export function wordsOf(stacks: Stacks, shape: StackShape, keys: Uint32Array): KeyWords {
  const key = Uint32Array.from(new Set(keys)).filter(one => one <= shape.foldedKey);
  const frames = Array.from(key, one => (one < stacks.frameCount ? stacks.frameAt(one) : undefined));
  const nameOf = (one: number) => (one === shape.foldedKey ? FOLDED_WORDS : (stacks.labelOf(one) ?? ''));
  return {
    key,
    name: frames.map((frame, i) => frame?.name ?? nameOf(key[i])),
    file: frames.map(frame => frame?.file ?? ''),
    line: Uint32Array.from(frames, frame => frame?.line ?? 0),
    owner: frames.map((frame, i) => (key[i] === shape.foldedKey ? OWNERS[1] : frame?.owner)),
  };
}

export function buffersOf(layout: FlameLayout): ArrayBuffer[] {
  return Object.values(layout).map((column: Uint32Array | Float64Array) => column.buffer as ArrayBuffer);
}
