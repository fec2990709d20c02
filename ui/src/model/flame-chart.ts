/** Stacks over time: a box for each call, as long as neighbouring allocations have it in common. */

import type {AxisRange} from './axis';
import type {FlameLayout} from './flame-layout';
import {type Key, ROOT_KEY, type Shape} from './flame-tree';

/** Stands for allocations of several stacks that lie too close to each other to be drawn apart. */
export const SEVERAL_KEY: Key = 0xffff_fffe;

/** Boxes over the x axis: `left` and `total` are positions of it, and `weight` is what was allocated. */
export interface FlameChart extends FlameLayout {
  readonly weight: Float64Array;
}

/** Something allocated, or all that was allocated within a column. */
export interface Step {
  /** Where it begins; it lasts to the next one. */
  readonly at: number;
  /** Its node of the shape: of a column, the innermost that all of it has in common. */
  readonly node: number;
  /** There is more below the node, of several stacks. */
  readonly isSeveral: boolean;
  readonly weight: number;
  readonly count: number;
}

interface Level {
  readonly left: number[];
  readonly right: number[];
  readonly parent: number[];
  readonly key: number[];
  readonly weight: number[];
  readonly count: number[];
}

/** The boxes of steps that follow each other, within a range; the last one lasts to `end`. */
export function flameChart(shape: Shape, steps: Iterable<Step>, {from, to}: AxisRange, end: number): FlameChart {
  const levels: Level[] = [];
  // The nodes of the boxes that the step before ended in, outermost first; below the last one, `-1 - node` for several.
  let open: number[] = [];
  let before: Step | undefined;
  const close = (at: number) => {
    for (let depth = 0; depth < open.length; depth++) levels[depth].right[levels[depth].left.length - 1] = at;
  };
  const put = (step: Step) => {
    const path = pathOf(shape, step.node);
    if (step.isSeveral) path.push(-1 - step.node);
    let shared = 0;
    while (shared < path.length && shared < open.length && path[shared] === open[shared]) shared++;
    for (let depth = shared; depth < path.length; depth++) {
      levels[depth] ??= {left: [], right: [], parent: [], key: [], weight: [], count: []};
      const level = levels[depth];
      level.left.push(step.at);
      level.right.push(step.at);
      level.parent.push(depth === 0 ? 0 : levels[depth - 1].left.length - 1);
      level.key.push(path[depth] < 0 ? SEVERAL_KEY : shape.key[path[depth]]);
      level.weight.push(0);
      level.count.push(0);
    }
    for (let depth = 0; depth < path.length; depth++) {
      const level = levels[depth];
      level.weight[level.weight.length - 1] += step.weight;
      level.count[level.count.length - 1] += step.count;
    }
    open = path;
  };
  let [weight, count] = [0, 0];
  for (const step of steps) {
    if (before) close(step.at);
    put(step);
    before = step;
    weight += step.weight;
    count += step.count;
  }
  close(end);
  return joined(levels, {from, to, weight, count});
}

/** From the outermost frame's node to a node; the root is no frame. */
function pathOf({parent}: Shape, node: number): number[] {
  const path: number[] = [];
  for (let up = node; up !== 0; up = parent[up]) path.push(up);
  return path.reverse();
}

function joined(levels: Level[], all: {from: number; to: number; weight: number; count: number}): FlameChart {
  const offsets = [0, 1];
  for (const {left} of levels) offsets.push(offsets[offsets.length - 1] + left.length);
  const boxes = offsets[offsets.length - 1];
  const make = () => new Float64Array(boxes);
  const chart = {
    levelFrom: Uint32Array.from(offsets),
    parent: new Uint32Array(boxes),
    key: new Uint32Array(boxes).fill(ROOT_KEY),
    left: make(),
    total: make(),
    self: make(),
    totalCount: make(),
    selfCount: make(),
    weight: make(),
  };
  chart.left[0] = all.from;
  chart.total[0] = all.to - all.from;
  chart.weight[0] = all.weight;
  chart.totalCount[0] = all.count;
  for (const [depth, level] of levels.entries()) {
    const offset = offsets[depth + 1];
    for (let i = 0; i < level.left.length; i++) {
      chart.parent[offset + i] = depth === 0 ? 0 : offsets[depth] + level.parent[i];
      chart.key[offset + i] = level.key[i];
      chart.left[offset + i] = level.left[i];
      chart.total[offset + i] = level.right[i] - level.left[i];
      chart.weight[offset + i] = level.weight[i];
      chart.totalCount[offset + i] = level.count[i];
    }
  }
  return chart;
}

/** The innermost node that two have in common. `depth` has a number for each node. */
export function commonNode({parent}: Shape, depth: Uint16Array | Uint32Array, a: number, b: number): number {
  let [one, other] = [a, b];
  while (depth[one] > depth[other]) one = parent[one];
  while (depth[other] > depth[one]) other = parent[other];
  while (one !== other) {
    one = parent[one];
    other = parent[other];
  }
  return one;
}

/** How far each node is from the root. */
export function depthsOf({parent}: Shape): Uint32Array {
  const depths = new Uint32Array(parent.length);
  // Parents come first.
  for (let node = 1; node < parent.length; node++) depths[node] = depths[parent[node]] + 1;
  return depths;
}
