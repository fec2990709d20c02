import {describe, expect, it} from 'vitest';
import {type BoxPen, SvgPen} from '../../draw/svg-pen';
import {boxAt, layOut} from '../../model/flame-layout';
import {weighed} from '../../model/flame-tree';
import {random} from '../../testing/lifetimes';
import {type BoxLooks, drawFlame, type FlameWindow, levelAt, ROW_CSS, topOf} from './flame-draw';

const INK = {text: 'text', faint: 'faint', merged: 'merged', match: 'match', onMatch: 'on', accent: 'accent'};
const LOOKS: BoxLooks = {
  label: key => `frame ${key}`,
  colour: key => `colour ${key}`,
  matches: undefined,
  amount: () => '1 B',
};

/** A root with children of some weights, and below each one child that weighs the same. */
function layoutOf(weights: number[]) {
  const parent = [0, ...weights.map(() => 0), ...weights.map((_, i) => i + 1)];
  const self = [0, ...weights.map(() => 0), ...weights];
  const key = parent.map((_, i) => i);
  const shape = {parent: Uint32Array.from(parent), key: Uint32Array.from(key)};
  return layOut(
    weighed(
      shape,
      Float64Array.from(self),
      Float64Array.from(self, one => (one > 0 ? 1 : 0)),
    ),
  );
}

/** A pen that notes each call. */
function noting() {
  const calls: {call: string; at: number[]; text?: string; colour: unknown; alpha: number}[] = [];
  const pen: BoxPen = {
    fillStyle: '',
    strokeStyle: '',
    lineWidth: 1,
    font: '',
    textAlign: 'left',
    textBaseline: 'middle',
    globalAlpha: 1,
    fillRect: (...at) => void calls.push({call: 'box', at, colour: pen.fillStyle, alpha: pen.globalAlpha}),
    strokeRect: (...at) => void calls.push({call: 'outline', at, colour: pen.strokeStyle, alpha: 1}),
    fillText: (text, x, y) => void calls.push({call: 'text', at: [x, y], text, colour: pen.fillStyle, alpha: 1}),
    measureText: text => ({width: text.length * 6}) as TextMetrics,
  };
  return {pen, calls};
}

function windowOf(from: number, to: number, more: Partial<FlameWindow> = {}): FlameWindow {
  return {widthCss: 800, heightCss: 200, from, to, scrollCss: 0, grows: 'down', smallCss: 3, ...more};
}

describe('a drawn flame graph', () => {
  it('has a box for each node in view, as wide as it weighs', () => {
    const {pen, calls} = noting();
    drawFlame(pen, layoutOf([50, 30, 20]), LOOKS, windowOf(0, 100), INK, -1);
    const boxes = calls.filter(({call}) => call === 'box').map(({at}) => at);
    expect(boxes).toEqual([
      [0, 0, 799, 18],
      [0, 19, 399, 18],
      [400, 19, 239, 18],
      [640, 19, 159, 18],
      [0, 38, 399, 18],
      [400, 38, 239, 18],
      [640, 38, 159, 18],
    ]);
  });

  it('draws about two boxes a pixel at most, however many nodes there are', () => {
    const next = random(3);
    const layout = layoutOf(Array.from({length: 200_000}, () => 1 + next()));
    const {pen, calls} = noting();
    drawFlame(pen, layout, LOOKS, windowOf(0, layout.total[0]), INK, -1);
    expect(calls.length).toBeLessThan(2 * 2 * 800 * 1.02);
  });

  it('draws neighbours that are too narrow as one, and says how many they are', () => {
    const {pen, calls} = noting();
    const small = Array.from({length: 60}, () => 2);
    drawFlame(pen, layoutOf([880, ...small]), LOOKS, windowOf(0, 1000), INK, -1);
    const row = calls.filter(({at}) => at[1] >= ROW_CSS && at[1] < 2 * ROW_CSS);
    expect(row.filter(({call}) => call === 'box').map(({at}) => at)).toEqual([
      [0, 19, 703, 18],
      [704, 19, 95, 18],
    ]);
    expect(row.map(({text}) => text)).toContain('… 60 smaller');
    // So are those below them, each of another caller.
    expect(calls.filter(({at}) => at[1] === 2 * ROW_CSS).length).toBe(2);
  });

  it('draws no box where there is none: narrow ones with a gap between them are several', () => {
    const {pen, calls} = noting();
    const layout = layoutOf([500, ...Array.from({length: 20}, () => 2), 200, ...Array.from({length: 20}, () => 1)]);
    // Over time, boxes need not touch: the wide one between is no call.
    const left = layout.left.map((at, box) => (box > 2 && box < layout.levelFrom[2] ? at + 100 : at));
    drawFlame(pen, {...layout, left}, LOOKS, windowOf(0, 1000), INK, -1);
    const row = calls.filter(({at, call}) => call === 'box' && at[1] === ROW_CSS);
    expect(row.map(({at}) => at[0])).toEqual([0, 400, 640]);
  });

  it('draws only what is between the edges once zoomed', () => {
    const layout = layoutOf([50, 30, 20]);
    const {pen, calls} = noting();
    drawFlame(pen, layout, LOOKS, windowOf(50, 80), INK, -1);
    const boxes = calls.filter(({call}) => call === 'box');
    expect(boxes.map(({at}) => at)).toEqual([
      [0, 0, 799, 18],
      [0, 19, 799, 18],
      [0, 38, 799, 18],
    ]);
    // The root is wider than it is drawn.
    expect(boxes.map(({alpha}) => alpha)).toEqual([0.45, 1, 1]);
  });

  it('writes words only where they fit, and cuts them', () => {
    const {pen, calls} = noting();
    drawFlame(pen, layoutOf([940, 40, 20]), LOOKS, windowOf(0, 1000), INK, -1);
    const texts = calls.filter(({call}) => call === 'text').map(({text}) => text);
    expect(texts).toContain('frame 1');
    expect(texts).toContain('fr…');
    expect(texts).not.toContain('frame 3');
  });

  it('makes what was searched for stand out', () => {
    const {pen, calls} = noting();
    drawFlame(pen, layoutOf([50, 50]), {...LOOKS, matches: key => key === 2}, windowOf(0, 100), INK, -1);
    const matches = calls.filter(({colour, call}) => call === 'box' && colour === 'match');
    expect(matches.map(({alpha}) => alpha)).toEqual([1]);
    expect(calls.filter(({call, alpha}) => call === 'box' && alpha < 1).length).toBe(4);
  });

  it('finds the box under a pixel that was drawn there, growing down or up', () => {
    const layout = layoutOf([50, 30, 20]);
    for (const grows of ['down', 'up'] as const) {
      const window = windowOf(0, 100, {grows, scrollCss: 5});
      const {pen, calls} = noting();
      drawFlame(pen, layout, LOOKS, window, INK, -1);
      for (const {call, at, colour} of calls) {
        if (call !== 'box') continue;
        const [x, y, width] = at;
        expect(y).toBe(topOf(window, levelAt(window, y + 1)));
        const box = boxAt(layout, levelAt(window, y + ROW_CSS / 2), (x + width / 2) / 8);
        expect(colour).toBe(`colour ${layout.key[box]}`);
      }
    }
  });

  it('saved as SVG keeps markup in names as text', () => {
    const pen = new SvgPen(text => ({width: text.length * 6}) as TextMetrics);
    const label = () => '<script>alert("x")</script>\u0000';
    drawFlame(pen, layoutOf([1]), {...LOOKS, label}, windowOf(0, 1), INK, -1);
    const svg = pen.finish(800, 200, '#fff');
    expect(svg).not.toContain('<script');
    expect(svg).not.toContain('\u0000');
    expect(svg).toContain('&lt;script&gt;alert(&quot;x&quot;)&lt;/script&gt;\ufffd');
  });
});
