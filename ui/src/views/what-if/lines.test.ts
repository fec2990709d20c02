import {describe, expect, it} from 'vitest';
import {random} from '../../testing/lifetimes';
import {columnsOf, drawLine, linesOf} from './lines';

function made(seed: number, entries: number, oom?: number) {
  const next = random(seed);
  const at = Array.from({length: entries}, (_, i) => i).filter(() => next() < 0.3);
  const values = at.map(() => Math.floor(next() * 1000));
  const [line] = linesOf([
    {
      conf: 'x:1',
      capacity_bytes: null,
      entries: at,
      reserved_bytes: values,
      ...(oom === undefined ? {} : {oom_entry: oom}),
    },
  ]);
  const valueAt = (entry: number) => values[at.findLastIndex(one => one <= entry)] ?? 0;
  return {line, valueAt};
}

describe('a simulated line', () => {
  it('shows in each pixel the highest of the entries in it', () => {
    for (let seed = 1; seed < 20; seed++) {
      const {line, valueAt} = made(seed, 400);
      for (const [from, to] of [
        [0, 400],
        [30, 130],
        [200, 210],
      ]) {
        const viewport = {widthCss: 64, heightCss: 100, x: {from, to}, lowBytes: 0, highBytes: 1000};
        const columns = columnsOf(line, viewport, 400);
        columns.forEach((value, column) => {
          const first = Math.floor(from + (column * (to - from)) / 64);
          const end = Math.max(first + 1, Math.floor(from + ((column + 1) * (to - from)) / 64));
          const all = Array.from({length: end - first}, (_, i) => valueAt(first + i));
          expect(value).toBe(Math.max(...all));
        });
      }
    }
  });

  it('ends at the request that failed, with a cross', () => {
    const {line} = made(4, 400, 200);
    const viewport = {widthCss: 40, heightCss: 100, x: {from: 0, to: 400}, lowBytes: 0, highBytes: 1000};
    const columns = columnsOf(line, viewport, 400);
    expect(columns.findIndex(Number.isNaN)).toBe(21);
    const calls: [string, number, number][] = [];
    const pen = new Proxy({} as never, {
      get: (_, name: string) => (x: number, y: number) => void calls.push([name, x, y]),
      set: () => true,
    });
    drawLine(pen, viewport, line, 400, 'red');
    const moves = calls.filter(([name]) => name === 'moveTo');
    expect(moves.length).toBe(3);
    expect(moves[1][1]).toBe(15);
  });
});
