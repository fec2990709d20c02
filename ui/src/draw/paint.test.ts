import {describe, expect, it} from 'vitest';
import {ID_IDLE} from '../model/column-ids';
import type {StackedIds, StackedWindow} from '../model/stacked-picture';
import {darker, faded, halfway, type Paint, paintStacked} from './paint';
import {BACKGROUND, FREE, hexOf, LEADING, pixelOf} from './palette';

const WHITE = 0xffffffff;
const RED = pixelOf('#cc0000');
const BLUE = pixelOf('#0000cc');

/** Paints columns of ids, lowest first; gives the columns, lowest first. */
function painted(columns: number[][], paint: Partial<Paint> = {}, steady?: number[]): string[][] {
  const [width, height] = [columns.length, columns[0].length];
  const picture: StackedIds = {
    ids: Uint32Array.from(columns.flat()),
    entries: new Uint32Array(width),
    highBytes: new Float64Array(width),
    lowBytes: Float64Array.from(steady ?? columns.map(() => height)),
  };
  const window: StackedWindow = {width, height, x: {from: 0, to: width}, lowBytes: 0, highBytes: height};
  const out = new Uint32Array(width * height);
  const colours = {key: Uint8Array.of(0, 1, 0), lut: Uint32Array.of(RED, BLUE)};
  paintStacked(picture, window, {colours, background: WHITE, idle: 'hatched', before: 0, ...paint}, out);
  return columns.map((_, x) => Array.from({length: height}, (_, y) => hexOf(out[(height - 1 - y) * width + x])));
}

const hex = (pixel: number) => hexOf(pixel >>> 0);

describe('the painter', () => {
  it('puts each id in its place and colour, and the background where there is none', () => {
    expect(painted([[1, 2, 0]])).toEqual([['#cc0000', '#0000cc', '#ffffff']]);
    const many = Array.from({length: 40}, (_, x) => [x % 2 === 0 ? 1 : 2, 0]);
    expect(painted(many).map(([low]) => low)).toEqual(many.map(([id]) => (id === 1 ? '#cc0000' : '#0000cc')));
  });

  it('gives a band an edge below where it is thick enough', () => {
    expect(painted([[1, 1, 1, 2, 2]])[0]).toEqual([hex(darker(RED)), '#cc0000', '#cc0000', '#0000cc', '#0000cc']);
  });

  it('is paler above the smallest total of a column', () => {
    expect(painted([[1, 2, 2]], {}, [1])[0]).toEqual(['#cc0000', hex(halfway(BLUE, WHITE)), hex(halfway(BLUE, WHITE))]);
  });

  it('stripes what began before the recording, and hatches what awaits its free', () => {
    const before = new Set(painted([[1, 1, 1, 1, 1, 1, 1, 1]], {before: 1})[0]);
    expect(before).toContain(hex(halfway(RED, WHITE)));
    expect(before).toContain('#cc0000');
    const idle = Array(8).fill((2 | ID_IDLE) >>> 0) as number[];
    expect(new Set(painted([idle])[0])).toContain(hex(darker(darker(BLUE))));
    expect(new Set(painted([idle.slice(0, 2)], {idle: 'pale'})[0])).toEqual(
      new Set([hex(halfway(halfway(BLUE, WHITE), WHITE))]),
    );
  });

  it('fades what a search did not find', () => {
    expect(painted([[1, 2, 0]], {matches: Uint8Array.of(0, 1, 0)})).toEqual([
      [hex(faded(RED, WHITE)), '#0000cc', '#ffffff'],
    ]);
  });
});

describe('the palette', () => {
  const lightness = (colour: string) => {
    const [r, g, b] = [1, 3, 5].map(at => {
      const channel = Number.parseInt(colour.slice(at, at + 2), 16) / 255;
      return channel <= 0.03928 ? channel / 12.92 : ((channel + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const contrast = (a: string, b: string) => {
    const [high, low] = [lightness(a), lightness(b)].sort((x, y) => y - x);
    return (high + 0.05) / (low + 0.05);
  };

  it('can be told from the background and from free memory, in both themes', () => {
    for (const colour of LEADING) {
      for (const shade of ['light', 'dark'] as const) {
        expect(contrast(colour, BACKGROUND[shade]), `${colour} on ${shade}`).toBeGreaterThan(1.4);
        expect(contrast(colour, FREE[shade]), `${colour} on free, ${shade}`).toBeGreaterThan(1.1);
      }
    }
  });

  it('turns colours into pixels and back', () => {
    for (const colour of LEADING) expect(hexOf(pixelOf(colour))).toBe(colour);
  });
});
