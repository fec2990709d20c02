import {describe, expect, it} from 'vitest';
import {random} from '../testing/lifetimes';
import {commonNode, depthsOf, type FlameChart, flameChart, SEVERAL_KEY, type Step} from './flame-chart';
import {boxAt, childrenOf} from './flame-layout';
import {ShapeBuilder} from './flame-tree';

/** A shape with `paths`, and the node of each. */
function shapeOf(paths: number[][]) {
  const builder = new ShapeBuilder();
  const nodes = paths.map(path => path.reduce((node, key) => builder.child(node, key), 0));
  return {shape: builder.finish(), nodes};
}

function boxes(chart: FlameChart, level: number): number[][] {
  const found: number[][] = [];
  for (let box = chart.levelFrom[level]; box < chart.levelFrom[level + 1]; box++)
    found.push([chart.key[box], chart.left[box], chart.left[box] + chart.total[box], chart.weight[box]]);
  return found;
}

const step = (at: number, node: number, weight = 1, isSeveral = false): Step => ({
  at,
  node,
  weight,
  isSeveral,
  count: 1,
});

describe('stacks over time', () => {
  it('are boxes as long as neighbours have their callers in common', () => {
    const {shape, nodes} = shapeOf([[1, 2, 3], [1, 2, 4], [1], [5]]);
    const [a, b, c, d] = nodes;
    const chart = flameChart(
      shape,
      [step(10, a, 5), step(20, a, 6), step(30, b, 7), step(50, c, 1), step(60, d, 2)],
      {from: 0, to: 100},
      100,
    );
    expect(boxes(chart, 0)).toEqual([[0xffff_ffff, 0, 100, 21]]);
    expect(boxes(chart, 1)).toEqual([
      [1, 10, 60, 19],
      [5, 60, 100, 2],
    ]);
    expect(boxes(chart, 2)).toEqual([[2, 10, 50, 18]]);
    expect(boxes(chart, 3)).toEqual([
      [3, 10, 30, 11],
      [4, 30, 50, 7],
    ]);
    expect(childrenOf(chart, boxAt(chart, 2, 15)).map(box => chart.key[box] ?? 'end')).toEqual([3, 'end']);
    expect(boxAt(chart, 2, 55)).toBe(-1);
  });

  it('are two boxes for a call that comes again', () => {
    const {shape, nodes} = shapeOf([
      [1, 2],
      [1, 3],
    ]);
    const chart = flameChart(shape, [step(0, nodes[0]), step(1, nodes[1]), step(2, nodes[0])], {from: 0, to: 3}, 3);
    expect(boxes(chart, 2).map(([key]) => key)).toEqual([2, 3, 2]);
  });

  it('say where several stacks are too close to be told apart', () => {
    const {shape, nodes} = shapeOf([
      [1, 2],
      [1, 3],
    ]);
    const common = commonNode(shape, depthsOf(shape), nodes[0], nodes[1]);
    expect(shape.key[common]).toBe(1);
    const chart = flameChart(
      shape,
      [step(0, nodes[0]), step(1, common, 9, true), step(2, common, 1, true)],
      {from: 0, to: 3},
      3,
    );
    expect(boxes(chart, 1)).toEqual([[1, 0, 3, 11]]);
    expect(boxes(chart, 2)).toEqual([
      [2, 0, 1, 1],
      [SEVERAL_KEY, 1, 3, 10],
    ]);
  });

  it('weigh on every level what was allocated there, without gaps but at the beginning', () => {
    const next = random(9);
    const paths = Array.from({length: 20}, () =>
      Array.from({length: 1 + Math.floor(next() * 5)}, () => Math.floor(next() * 3)),
    );
    const {shape, nodes} = shapeOf(paths);
    const steps = Array.from({length: 300}, (_, i) => step(i, nodes[Math.floor(next() * nodes.length)], 1 + (i % 7)));
    const chart = flameChart(shape, steps, {from: 0, to: 300}, 300);
    const all = steps.reduce((sum, {weight}) => sum + weight, 0);
    expect(boxes(chart, 1).reduce((sum, [, , , weight]) => sum + weight, 0)).toBe(all);
    let end = 0;
    for (const [, left, right] of boxes(chart, 1)) {
      expect(left).toBe(end);
      end = right;
    }
    for (let box = 1; box < chart.key.length; box++) {
      const parent = chart.parent[box];
      expect(chart.left[box]).toBeGreaterThanOrEqual(chart.left[parent]);
      expect(chart.left[box] + chart.total[box]).toBeLessThanOrEqual(chart.left[parent] + chart.total[parent]);
    }
  });

  it('are nothing where nothing was allocated', () => {
    const {shape} = shapeOf([[1]]);
    const chart = flameChart(shape, [], {from: 5, to: 9}, 9);
    expect([chart.levelFrom, chart.total].map(one => [...one])).toEqual([[0, 1], [4]]);
  });
});
