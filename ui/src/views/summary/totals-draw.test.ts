import {describe, expect, it} from 'vitest';
import type {Pen} from '../../draw/overlay';
import {drawSteps, drawTotals} from './totals-draw';

const VIEWPORT = {widthCss: 100, heightCss: 50, x: {from: 0, to: 10}, lowBytes: 0, highBytes: 100};

/** A pen that notes where paths go. */
function noting() {
  const calls: (string | number)[][] = [];
  const pen = new Proxy({} as Pen, {
    get:
      (_, name: string) =>
      (...at: number[]) =>
        void calls.push([name, ...at]),
    set: (_, name: string, value) => {
      if (name === 'fillStyle' || name === 'strokeStyle') calls.push([value]);
      return true;
    },
  });
  return {calls, pen};
}

describe('the chart of totals', () => {
  it('draws a step line level until the next step, and on to the end', () => {
    const {calls, pen} = noting();
    drawSteps(pen, VIEWPORT, [0, 4, 6], [20, 20, 60], 'ink', 10);
    expect(calls.filter(([name]) => name === 'moveTo' || name === 'lineTo')).toEqual([
      ['moveTo', 0, 40],
      ['lineTo', 60, 40],
      ['lineTo', 60, 20],
      ['lineTo', 100, 20],
    ]);
  });

  it('draws what was held throughout over what was held at times, and reserved memory over both', () => {
    const {calls, pen} = noting();
    const totals = {
      entries: Uint32Array.of(0, 5),
      highBytes: Float64Array.of(50, 100),
      lowBytes: Float64Array.of(10, 0),
      reservedBytes: Float64Array.of(100, 100),
    };
    drawTotals(pen, VIEWPORT, totals, {area: 'area', steady: 'steady', reserved: 'reserved'});
    const colours = calls.filter(([name]) => ['area', 'steady', 'reserved'].includes(String(name))).flat();
    expect(colours).toEqual(['area', 'steady', 'reserved']);
    const lines = calls.filter(([name]) => name === 'lineTo').map(([, x, y]) => [x, y]);
    expect(lines.slice(0, 5)).toEqual([
      [0, 25],
      [50, 25],
      [50, 0],
      [100, 0],
      [100, 50],
    ]);
  });
});
