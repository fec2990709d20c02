/**
 * Trees of frames with sums: what a flame graph and a sandwich table are made of.
 *
 * Nodes are rows of typed arrays, parents before children, node 0 the root. So one pass backwards sums totals, and no
 * object is made for a node.
 */

/** A key stands for what a box says: a frame, a label of stacks without frames, or what is folded. */
export type Key = number;

/** Which keys call which. */
export interface Shape {
  /** The root's parent is the root. */
  readonly parent: Uint32Array;
  /** The root's key says nothing. */
  readonly key: Uint32Array;
}

/** A tree with what each node weighs. */
export interface FlameTree extends Shape {
  /** Of the node itself, without its children. */
  readonly self: Float64Array;
  readonly selfCount: Float64Array;
  /** With all below it. */
  readonly total: Float64Array;
  readonly totalCount: Float64Array;
}

/** The root's key. */
export const ROOT_KEY: Key = 0xffff_ffff;

/** Grows a shape: children are found by what they are called from and their key. */
export class ShapeBuilder {
  private readonly parents: number[] = [0];
  private readonly keys: number[] = [ROOT_KEY];
  private readonly children = new Map<number, number>();

  /** The child of a node with a key; made if it is new. */
  child(parent: number, key: Key): number {
    // Exact: both are below 2^26 in any file that fits, and a double holds 2^53.
    const name = parent * 0x800_0000 + key;
    let node = this.children.get(name);
    if (node === undefined) {
      node = this.parents.length;
      this.parents.push(parent);
      this.keys.push(key);
      this.children.set(name, node);
    }
    return node;
  }

  parentOf(node: number): number {
    return this.parents[node];
  }

  keyOf(node: number): Key {
    return this.keys[node];
  }

  get size(): number {
    return this.parents.length;
  }

  finish(): Shape {
    return {parent: Uint32Array.from(this.parents), key: Uint32Array.from(this.keys)};
  }
}

/** A tree from what its nodes weigh themselves; nodes of which nothing was counted are left out. */
export function weighed(shape: Shape, self: Float64Array, selfCount: Float64Array): FlameTree {
  const total = self.slice();
  const totalCount = selfCount.slice();
  const {parent, key} = shape;
  for (let node = parent.length - 1; node > 0; node--) {
    total[parent[node]] += total[node];
    totalCount[parent[node]] += totalCount[node];
  }
  const place = new Uint32Array(parent.length);
  let kept = 1;
  for (let node = 1; node < parent.length; node++) if (totalCount[node] > 0) place[node] = kept++;
  if (kept === parent.length) return {...shape, self, selfCount, total, totalCount};
  const tree = emptyTree(kept);
  for (let node = 0; node < parent.length; node++) {
    if (node > 0 && totalCount[node] === 0) continue;
    const to = place[node];
    tree.parent[to] = place[parent[node]];
    tree.key[to] = key[node];
    tree.self[to] = self[node];
    tree.selfCount[to] = selfCount[node];
    tree.total[to] = total[node];
    tree.totalCount[to] = totalCount[node];
  }
  return tree;
}

/** The tree with the innermost frames at the root, and their callers below. */
export function inverted(tree: FlameTree): FlameTree {
  const {parent, key, self, selfCount} = tree;
  const paths = new Paths();
  for (let node = 0; node < parent.length; node++) {
    if (selfCount[node] === 0) continue;
    let end = 0;
    for (let up = node; up !== 0; up = parent[up]) end = paths.shape.child(end, key[up]);
    paths.add(end, self[node], selfCount[node]);
  }
  return paths.finish();
}

/** What a frame calls: the root is the frame. Of a recursion, the outermost call counts. */
export function calleesOf(tree: FlameTree, wanted: Key): FlameTree {
  const {parent, key, self, selfCount} = tree;
  const paths = new Paths();
  const OUTSIDE = 0xffff_ffff;
  const to = new Uint32Array(parent.length).fill(OUTSIDE);
  for (let node = 1; node < parent.length; node++) {
    const above = to[parent[node]];
    if (above !== OUTSIDE) to[node] = paths.shape.child(above, key[node]);
    else if (key[node] === wanted) to[node] = 0;
    else continue;
    paths.add(to[node], self[node], selfCount[node]);
  }
  return paths.finish();
}

/** What calls a frame, inverted: the root is the frame, below it are its callers. Of a recursion, the outermost call. */
export function callersOf(tree: FlameTree, wanted: Key): FlameTree {
  const {parent, key, total, totalCount} = tree;
  const paths = new Paths();
  for (let node = 1; node < parent.length; node++) {
    if (key[node] !== wanted || hasAbove(tree, node, wanted)) continue;
    let end = 0;
    for (let up = parent[node]; up !== 0; up = parent[up]) end = paths.shape.child(end, key[up]);
    paths.add(end, total[node], totalCount[node]);
  }
  return paths.finish();
}

/** Sums of each key: what is its own, and what passes through it, of which a recursion is counted once. */
export interface KeyTotals {
  /** Ascending. */
  readonly key: Uint32Array;
  readonly self: Float64Array;
  readonly selfCount: Float64Array;
  readonly total: Float64Array;
  readonly totalCount: Float64Array;
}

export function totalsByKey(tree: FlameTree): KeyTotals {
  const {parent, key} = tree;
  const keys = Uint32Array.from(new Set(key.subarray(1))).sort();
  const place = new Map(Array.from(keys, (one, i) => [one, i]));
  const make = () => new Float64Array(keys.length);
  const totals: KeyTotals = {key: keys, self: make(), selfCount: make(), total: make(), totalCount: make()};
  for (let node = 1; node < parent.length; node++) {
    const at = place.get(key[node])!;
    totals.self[at] += tree.self[node];
    totals.selfCount[at] += tree.selfCount[node];
    if (hasAbove(tree, node, key[node])) continue;
    totals.total[at] += tree.total[node];
    totals.totalCount[at] += tree.totalCount[node];
  }
  return totals;
}

/** Whether a node is called, at whatever distance, from a key. */
function hasAbove({parent, key}: Shape, node: number, wanted: Key): boolean {
  for (let up = parent[node]; up !== 0; up = parent[up]) if (key[up] === wanted) return true;
  return false;
}

/** A tree made path by path. */
class Paths {
  readonly shape = new ShapeBuilder();
  private readonly self: number[] = [];
  private readonly count: number[] = [];

  /** Adds to what a node weighs itself. */
  add(node: number, self: number, count: number): void {
    while (this.self.length <= node) {
      this.self.push(0);
      this.count.push(0);
    }
    this.self[node] += self;
    this.count[node] += count;
  }

  finish(): FlameTree {
    this.add(this.shape.size - 1, 0, 0);
    return weighed(this.shape.finish(), Float64Array.from(this.self), Float64Array.from(this.count));
  }
}

function emptyTree(nodes: number): FlameTree {
  const make = () => new Float64Array(nodes);
  const parent = new Uint32Array(nodes);
  const key = new Uint32Array(nodes);
  return {parent, key, self: make(), selfCount: make(), total: make(), totalCount: make()};
}
