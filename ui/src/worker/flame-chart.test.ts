import {describe, expect, it} from 'vitest';
import type {Transferred} from '../data/rpc';
import {entryAxis} from '../model/axis';
import {SEVERAL_KEY} from '../model/flame-chart';
import {madeUp} from '../testing/lifetimes';
import {madeUpPaths, stacksOf} from '../testing/stacks';
import {type ChartOfStacks, type ChartRequest, chartOfStacks} from './flame-chart';
import type {Session} from './session';

function sessionOf(entries: number): Session {
  const lifetimes = madeUp(3, entries, 30, 2);
  const paths = madeUpPaths(4, 12, 6);
  const stacks = stacksOf(paths, [0, 0, 0, 0, 0, 0]);
  return {
    lifetimes,
    stack: Uint8Array.from({length: lifetimes.rows}, (_, row) => (row * 5) % paths.length),
    stacks: async () => stacks,
    axis: async () => entryAxis(lifetimes.entries),
    once: (_: string, make: () => Promise<unknown>) => make(),
  } as unknown as Session;
}

const ALL: ChartRequest = {
  of: 'allocated',
  entry: 0,
  selected: null,
  visible: null,
  axis: 'entry',
  fold: 'own',
  collapses: false,
  isInverted: false,
  without: [],
  over: 'entry',
  window: null,
};

async function chart(session: Session, request: Partial<ChartRequest>): Promise<ChartOfStacks> {
  const made = (await chartOfStacks(session, {...ALL, ...request})) as Transferred<ChartOfStacks>;
  return made.value;
}

/** Bytes of the rows that begin in a stretch. */
function allocated({lifetimes}: Session, from: number, to: number): number {
  const {start, size, unitBytes, before} = lifetimes;
  let units = 0;
  start.forEach((at: number, row: number) => {
    if (row >= before && from <= at && at < to) units += size[row];
  });
  return units * unitBytes;
}

describe('stacks over time', () => {
  const session = sessionOf(2000);

  it('weigh what was allocated in what is shown', async () => {
    for (const [request, from, to] of [
      [{}, 0, 2000],
      [{window: {from: 100, to: 400}}, 100, 400],
      [{selected: {from: 50, to: 900}}, 50, 900],
      [{selected: {from: 50, to: 900}, window: {from: 700, to: 1500}}, 700, 900],
      [{selected: {from: 50, to: 90}, window: {from: 700, to: 1500}}, 50, 90],
    ] as const) {
      const {layout, range, bars} = await chart(session, request);
      expect(range).toEqual({from, to});
      expect(layout.weight[0]).toBe(allocated(session, from, to));
      expect(bars.reduce((sum, one) => sum + one, 0)).toBe(layout.weight[0]);
    }
  });

  it('can leave out what passes through a frame', async () => {
    const {layout, words} = await chart(session, {});
    const key = layout.key[1];
    const rest = await chart(session, {without: [key]});
    expect(rest.layout.weight[0]).toBeLessThan(layout.weight[0]);
    expect([...rest.layout.key]).not.toContain(key);
    expect([...words.key]).toContain(key);
  });

  it('are put together where there are too many, and lose no byte', async () => {
    const many = sessionOf(120_000);
    const {layout, isCoarse, words} = await chart(many, {});
    expect(isCoarse).toBe(true);
    expect(layout.weight[0]).toBe(allocated(many, 0, 120_000));
    let inFirst = 0;
    for (let box = layout.levelFrom[1]; box < layout.levelFrom[2]; box++) inFirst += layout.weight[box];
    expect(inFirst).toBe(layout.weight[0]);
    expect([...words.key]).toContain(SEVERAL_KEY);
    expect(layout.key.length).toBeLessThan(100_000);
    expect((await chart(many, {window: {from: 0, to: 20_000}})).isCoarse).toBe(false);
  });

  it('are made only of what was asked for last', async () => {
    const [first, last] = [chart(session, {}), chart(session, {window: {from: 0, to: 10}})];
    await expect(first).rejects.toThrow('a newer picture');
    expect((await last).range.to).toBe(10);
  });
});
