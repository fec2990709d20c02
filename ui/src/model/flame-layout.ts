/** Where the boxes of a flame graph lie: level by level, in each from left to right, the heaviest child first. */

import type {FlameTree} from './flame-tree';

/** Boxes as columns. Box 0 is the root, and all of level 0. */
export interface FlameLayout {
  /** The first box of each level; one more for the end. */
  readonly levelFrom: Uint32Array;
  readonly parent: Uint32Array;
  readonly key: Uint32Array;
  /** The left edge, in what the tree weighs. */
  readonly left: Float64Array;
  readonly total: Float64Array;
  readonly self: Float64Array;
  readonly totalCount: Float64Array;
  readonly selfCount: Float64Array;
  /** What boxes weigh, where that is not how wide they are. */
  readonly weight?: Float64Array;
}

/** What a box weighs. */
export function weightOf({weight, total}: FlameLayout, box: number): number {
  return (weight ?? total)[box];
}

/** Lays a tree out. */
export function layOut(tree: FlameTree): FlameLayout {
  const nodes = tree.parent.length;
  const childFrom = new Uint32Array(nodes + 1);
  for (let node = 1; node < nodes; node++) childFrom[tree.parent[node] + 1]++;
  for (let node = 0; node < nodes; node++) childFrom[node + 1] += childFrom[node];
  const children = new Uint32Array(nodes);
  const next = childFrom.slice();
  for (let node = 1; node < nodes; node++) children[next[tree.parent[node]]++] = node;
  const heaviest = (a: number, b: number) => tree.total[b] - tree.total[a] || a - b;

  // The node of each box.
  const order = new Uint32Array(nodes);
  const parent = new Uint32Array(nodes);
  const left = new Float64Array(nodes);
  const levels = [0];
  let made = 1;
  for (let box = 0, levelEnd = 1; box < made; box++) {
    if (box === levelEnd) {
      levels.push(box);
      levelEnd = made;
    }
    const node = order[box];
    let x = left[box];
    for (const child of children.subarray(childFrom[node], childFrom[node + 1]).sort(heaviest)) {
      order[made] = child;
      parent[made] = box;
      left[made] = x;
      x += tree.total[child];
      made++;
    }
  }
  levels.push(nodes);
  const pick = (column: Float64Array) => Float64Array.from(order, node => column[node]);
  return {
    levelFrom: Uint32Array.from(levels),
    parent,
    key: Uint32Array.from(order, node => tree.key[node]),
    left,
    total: pick(tree.total),
    self: pick(tree.self),
    totalCount: pick(tree.totalCount),
    selfCount: pick(tree.selfCount),
  };
}

/** The level of a box. */
export function levelOf({levelFrom}: FlameLayout, box: number): number {
  return lastAtMost(levelFrom, box, 0, levelFrom.length - 1);
}

/** The box of a level over a position, or -1. */
export function boxAt(layout: FlameLayout, level: number, position: number): number {
  if (level < 0 || level + 1 >= layout.levelFrom.length) return -1;
  const from = layout.levelFrom[level];
  const box = lastAtMost(layout.left, position, from, layout.levelFrom[level + 1]);
  if (box < from || position >= layout.left[box] + layout.total[box]) return -1;
  return box;
}

/** The boxes directly below one: from the first up to and without the second. */
export function childrenOf(layout: FlameLayout, box: number): [number, number] {
  const level = levelOf(layout, box) + 1;
  if (level + 1 >= layout.levelFrom.length) return [0, 0];
  const end = layout.levelFrom[level + 1];
  const from = firstAtLeast(layout.parent, box, layout.levelFrom[level], end);
  return [from, firstAtLeast(layout.parent, box + 1, from, end)];
}

/** From the root to a box. */
export function pathTo({parent}: FlameLayout, box: number): number[] {
  const path = [box];
  while (path[0] !== 0) path.unshift(parent[path[0]]);
  return path;
}

/** The box under the root that keys lead to; as far as they lead. */
export function boxOfPath(layout: FlameLayout, keys: readonly number[]): number {
  let box = 0;
  for (const key of keys) {
    const [from, to] = childrenOf(layout, box);
    let child = from;
    while (child < to && layout.key[child] !== key) child++;
    if (child === to) return box;
    box = child;
  }
  return box;
}

/** The share of the whole that passes through boxes with some keys, each byte counted once. */
export function shareOf(layout: FlameLayout, isWanted: (key: number) => boolean): number {
  const inside = new Uint8Array(layout.parent.length);
  let sum = 0;
  for (let box = 1; box < inside.length; box++) {
    if (inside[layout.parent[box]]) inside[box] = 1;
    else if (isWanted(layout.key[box])) {
      inside[box] = 1;
      sum += weightOf(layout, box);
    }
  }
  return weightOf(layout, 0) > 0 ? sum / weightOf(layout, 0) : 0;
}

/** The last place from `from` up to and without `to` with a value of at most `value`; before `from` if there is none. */
function lastAtMost(column: Uint32Array | Float64Array, value: number, from: number, to: number): number {
  let low = from;
  let high = to;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (column[middle] <= value) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

function firstAtLeast(column: Uint32Array, value: number, from: number, to: number): number {
  let low = from;
  let high = to;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (column[middle] < value) low = middle + 1;
    else high = middle;
  }
  return low;
}
