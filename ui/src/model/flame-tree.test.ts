import {describe, expect, it} from 'vitest';
import {random} from '../testing/lifetimes';
import {madeUpPaths, type Path, stacksOf} from '../testing/stacks';
import {boxAt, boxOfPath, childrenOf, type FlameLayout, layOut, levelOf, pathTo, shareOf} from './flame-layout';
import {calleesOf, callersOf, type FlameTree, inverted, totalsByKey, weighed} from './flame-tree';
import {type Fold, stackShape} from './stack-shape';

const FRAMES = 9;
/** f0 to f3 are the user's, f4 to f6 PyTorch's, f7 Python's, f8 unwinding. */
const OWNER_OF = [0, 0, 0, 0, 1, 1, 1, 3, 5];

interface Weighted {
  path: Path;
  weight: number;
}

/** Sums by path, written out: what every tree must equal. */
function sums(paths: Weighted[]): Map<string, number> {
  const totals = new Map<string, number>();
  for (const {path, weight} of paths) {
    for (let depth = 0; depth <= path.length; depth++) {
      const name = path.slice(0, depth).join('/');
      totals.set(name, (totals.get(name) ?? 0) + weight);
    }
  }
  return totals;
}

/** A tree's sums by path. */
function sumsOf(tree: FlameTree): Map<string, number> {
  const names = [''];
  const totals = new Map([['', tree.total[0]]]);
  for (let node = 1; node < tree.parent.length; node++) {
    const above = names[tree.parent[node]];
    names[node] = above === '' ? String(tree.key[node]) : `${above}/${tree.key[node]}`;
    totals.set(names[node], tree.total[node]);
  }
  return totals;
}

function made(seed: number, fold: Fold = 'all', collapses = false) {
  const next = random(seed);
  const paths = madeUpPaths(seed, 40, FRAMES);
  const stacks = stacksOf(paths, OWNER_OF);
  const weights = paths.map(() => (next() < 0.3 ? 0 : 1 + Math.floor(next() * 100)));
  const {shape, nodeOf, foldedKey} = stackShape(stacks, fold, collapses);
  const self = new Float64Array(shape.parent.length);
  const count = new Float64Array(shape.parent.length);
  weights.forEach((weight, stack) => {
    self[nodeOf[stack]] += weight;
    count[nodeOf[stack]] += weight > 0 ? 1 : 0;
  });
  const shown = paths.map((path, i) => ({path: shownPath(path, fold, collapses, foldedKey), weight: weights[i]}));
  return {tree: weighed(shape, self, count), paths: shown.filter(({weight}) => weight > 0)};
}

/** What is shown of a path, frame by frame. */
function shownPath(path: Path, fold: Fold, collapses: boolean, foldedKey: number): Path {
  const shown: Path = [];
  for (const frame of path) {
    if (OWNER_OF[frame] === 5) continue;
    if (fold === 'all' || OWNER_OF[frame] === 0) {
      if (!collapses || !shown.includes(frame)) shown.push(frame);
    } else if (fold === 'folded' && shown.at(-1) !== foldedKey) shown.push(foldedKey);
  }
  const isNothing = shown.length === 0 || (shown.length === 1 && shown[0] === foldedKey);
  if (!isNothing) return shown;
  if (path.length === 0) return [FRAMES];
  return [path.findLast(frame => OWNER_OF[frame] === 0) ?? path[path.length - 1]];
}

describe('the tree of stacks', () => {
  it('has at each node the sum of the paths through it, however frames are folded', () => {
    for (let seed = 1; seed < 40; seed++) {
      for (const fold of ['own', 'folded', 'all'] as const) {
        for (const collapses of [false, true]) {
          const {tree, paths} = made(seed, fold, collapses);
          expect(sumsOf(tree)).toEqual(sums(paths));
        }
      }
    }
  });

  it('has parents before children, and no node without a row', () => {
    const {tree} = made(3);
    for (let node = 1; node < tree.parent.length; node++) {
      expect(tree.parent[node]).toBeLessThan(node);
      expect(tree.totalCount[node]).toBeGreaterThan(0);
    }
  });

  it('inverted has the sums of the reversed paths', () => {
    for (let seed = 1; seed < 40; seed++) {
      const {tree, paths} = made(seed);
      expect(sumsOf(inverted(tree))).toEqual(sums(paths.map(({path, weight}) => ({path: path.toReversed(), weight}))));
    }
  });

  it('shows what a frame calls, and what calls it, from its outermost call', () => {
    for (let seed = 1; seed < 40; seed++) {
      const {tree, paths} = made(seed);
      const through = paths.filter(({path}) => path.includes(2));
      const below = through.map(({path, weight}) => ({path: path.slice(path.indexOf(2) + 1), weight}));
      const above = through.map(({path, weight}) => ({path: path.slice(0, path.indexOf(2)).toReversed(), weight}));
      if (through.length === 0) continue;
      expect(sumsOf(calleesOf(tree, 2))).toEqual(sums(below));
      expect(sumsOf(callersOf(tree, 2))).toEqual(sums(above));
    }
  });

  it('counts a recursive frame once in its total', () => {
    for (let seed = 1; seed < 40; seed++) {
      const {tree, paths} = made(seed);
      const totals = totalsByKey(tree);
      totals.key.forEach((key, i) => {
        const sum = (of: Weighted[]) => of.reduce((all, {weight}) => all + weight, 0);
        expect(totals.total[i]).toBe(sum(paths.filter(({path}) => path.includes(key))));
        expect(totals.self[i]).toBe(sum(paths.filter(({path}) => path.at(-1) === key)));
      });
    }
  });
});

describe('the layout of a flame graph', () => {
  it('puts children side by side below their parent, the heaviest first', () => {
    for (let seed = 1; seed < 20; seed++) {
      const layout = layOut(made(seed).tree);
      for (let box = 0; box < layout.parent.length; box++) {
        const [from, to] = childrenOf(layout, box);
        let left = layout.left[box];
        for (let child = from; child < to; child++) {
          expect(layout.parent[child]).toBe(box);
          expect(layout.left[child]).toBe(left);
          expect(levelOf(layout, child)).toBe(levelOf(layout, box) + 1);
          if (child > from) expect(layout.total[child]).toBeLessThanOrEqual(layout.total[child - 1]);
          left += layout.total[child];
        }
        expect(left + layout.self[box]).toBe(layout.left[box] + layout.total[box]);
      }
    }
  });

  it('finds the box over any position as looking at every box does', () => {
    const layout = layOut(made(5).tree);
    const naive = (level: number, at: number) =>
      Array.from(layout.left).findIndex(
        (left, box) => levelOf(layout, box) === level && left <= at && at < left + layout.total[box],
      );
    for (let level = 0; level < layout.levelFrom.length; level++) {
      for (let at = 0; at < layout.total[0]; at += 3.5) expect(boxAt(layout, level, at)).toBe(naive(level, at));
    }
  });

  it('finds a box again by the keys that lead to it', () => {
    const layout = layOut(made(7).tree);
    for (let box = 0; box < layout.parent.length; box++) {
      const keys = pathTo(layout, box)
        .slice(1)
        .map(one => layout.key[one]);
      expect(boxOfPath(layout, keys)).toBe(box);
    }
  });

  it('counts a byte under two matching frames once', () => {
    for (let seed = 1; seed < 20; seed++) {
      const {tree, paths} = made(seed);
      const layout: FlameLayout = layOut(tree);
      const isWanted = (key: number) => key === 1 || key === 2;
      const matched = paths.filter(({path}) => path.some(isWanted)).reduce((sum, {weight}) => sum + weight, 0);
      expect(shareOf(layout, isWanted)).toBeCloseTo(matched / layout.total[0], 12);
    }
  });

  it('of nothing is the root alone', () => {
    const layout = layOut(
      weighed({parent: Uint32Array.of(0), key: Uint32Array.of(0)}, new Float64Array(1), new Float64Array(1)),
    );
    expect(Array.from(layout.levelFrom)).toEqual([0, 1]);
    expect(boxAt(layout, 0, 0)).toBe(-1);
    expect(childrenOf(layout, 0)).toEqual([0, 0]);
  });
});
