import {describe, expect, it} from 'vitest';
import type {DeviceManifest} from '../data/manifest';
import {loggingPen} from '../testing/pen';
import {drawLanes, namesAt} from '../views/stacked/lanes';
import type {StackedPicture} from '../worker/pictures';
import {
  drawBand,
  drawByteAxis,
  drawLevel,
  drawMarks,
  drawOutside,
  drawPeak,
  drawPositionAxis,
  drawReserved,
  type Ink,
  placesOfErrors,
  runOf,
} from './overlay';
import {type Viewport, zoomed} from './viewport';

const INK: Ink = {
  text: 'text',
  faint: 'faint',
  grid: 'grid',
  reserved: 'reserved',
  capacity: 'capacity',
  danger: 'danger',
  accent: 'accent',
  background: 'background',
};
const VIEWPORT: Viewport = {widthCss: 100, heightCss: 100, x: {from: 0, to: 100}, lowBytes: 0, highBytes: 1 << 30};

function picture(reservedGib: number[], outsideGib: number[] = []): StackedPicture {
  const width = reservedGib.length;
  return {
    window: {width, height: 4, x: {from: 0, to: 100}, lowBytes: 0, highBytes: 1 << 30},
    ids: new Uint32Array(width * 4),
    entries: new Uint32Array(width),
    highBytes: new Float64Array(width),
    lowBytes: new Float64Array(width),
    reservedBytes: Float64Array.from(reservedGib, gib => gib * 2 ** 30),
    outsideBytes: Float64Array.from(outsideGib, gib => gib * 2 ** 30),
    bitmap: undefined as unknown as ImageBitmap,
  };
}

describe('what is drawn over the picture', () => {
  it('has bytes at the left at powers of two', () => {
    const pen = loggingPen();
    drawByteAxis(pen, VIEWPORT, INK, 74, 10);
    expect(pen.log.filter(line => line.startsWith('fillText'))).toEqual([
      'fillText 0 B 68 111',
      'fillText 512 MiB 68 61',
      'fillText 1 GiB 68 11',
    ]);
  });

  it('has reserved memory as steps: as many points as it changes', () => {
    const pen = loggingPen();
    drawReserved(pen, VIEWPORT, INK, picture([0.25, 0.25, 0.25, 0.5, 0.5]));
    const points = pen.log.filter(line => /To/.test(line));
    expect(points).toEqual([
      'moveTo 0 75',
      'lineTo 0 75',
      'lineTo 60 75',
      'lineTo 60 50',
      'lineTo 80 50',
      'lineTo 80 50',
    ]);
  });

  it('has memory outside PyTorch on the reserved memory, a rectangle for as long as nothing changes', () => {
    const pen = loggingPen();
    const shown = picture([0.25, 0.25, 0.5, 0.5], [0.25, 0, 0.25, 0, 0.25, 0.125, 0.25, 0]);
    drawOutside(pen, VIEWPORT, INK, shown, ['red', 'blue']);
    // Between two bands runs a line of half a pixel.
    expect(pen.log.filter(line => !line.endsWith(' 1'))).toEqual([
      'fillRect 0 50 50 25',
      'fillRect 50 25 25 25',
      'fillRect 50 13 25 13',
      'fillRect 75 25 25 25',
    ]);
  });

  it('has the line of the capacity only where it is in view', () => {
    const pen = loggingPen();
    drawLevel(pen, VIEWPORT, 'red', 2 ** 31, 'capacity 2 GiB');
    expect(pen.log).toEqual([]);
    drawLevel(pen, VIEWPORT, 'red', 2 ** 29, 'capacity 512 MiB');
    expect(pen.log).toContain('lineTo 100 51');
  });

  it('labels errors, as many as there is room for, and the peak, at its left where the right is too narrow', () => {
    const pen = loggingPen();
    const label = 'out of memory';
    const marks = [2, 10, 99].map(entry => ({entry, kind: 'oom' as const, label}));
    drawMarks(pen, VIEWPORT, INK, marks, entry => entry);
    drawPeak(pen, VIEWPORT, INK, {position: 50, bytes: 1 << 29, words: 'peak 512 MiB'}, 0);
    expect(pen.log.filter(line => line.startsWith('fillText'))).toEqual([
      'fillText out of memory 10 1',
      'fillText peak 512 MiB 0 28',
    ]);
  });

  it('keeps the words of the last position in the picture', () => {
    const pen = loggingPen();
    drawPositionAxis(pen, VIEWPORT, INK, 20, 0, 'entry');
    // Letters are six pixels wide: `100` in the middle of 111 ends at 120.
    expect(pen.log.filter(line => line.startsWith('fillText'))).toEqual([
      'fillText 0 21 6',
      'fillText 50 71 6',
      'fillText 100 111 6',
    ]);
  });

  it('puts the words of an error under the level whose words they would cover, and those of the peak under both', () => {
    const pen = loggingPen();
    const texts = () => pen.log.filter(line => line.startsWith('fillText'));
    const draw = (entry: number, levelBytes: number) => {
      pen.log.length = 0;
      const level = drawLevel(pen, VIEWPORT, INK.capacity, levelBytes, 'limit');
      const marks = [{entry, kind: 'oom' as const, label: 'error'}];
      const end = drawMarks(pen, VIEWPORT, INK, marks, at => at, level);
      drawPeak(pen, VIEWPORT, INK, {position: entry, bytes: 0.8 * 2 ** 30, words: 'peak'}, end);
      return texts();
    };
    // Letters are six pixels wide: the words of the limit begin at 66.
    expect(draw(45, 0.9 * 2 ** 30)).toEqual(['fillText limit 66 9', 'fillText error 53 14', 'fillText peak 53 30']);
    expect(draw(5, 0.9 * 2 ** 30)).toEqual(['fillText limit 66 9', 'fillText error 13 1', 'fillText peak 13 17']);
    expect(draw(45, 0.4 * 2 ** 30)).toEqual(['fillText limit 66 59', 'fillText error 53 1', 'fillText peak 53 17']);
  });

  it('leaves out the numbers of an error where neither side has room for them', () => {
    const texts = (label: string) => {
      const pen = loggingPen();
      drawMarks(pen, VIEWPORT, INK, [{entry: 50, kind: 'oom', label}], entry => entry);
      return pen.log.filter(line => line.startsWith('fillText'));
    };
    // Letters are six pixels wide, and each side has 42.
    expect(texts('oom: 1 B')).toEqual(['fillText oom 58 1']);
    expect(texts('oom: 1')).toEqual(['fillText oom: 1 58 1']);
  });

  it('has a minus sign before positions that are negative', () => {
    const pen = loggingPen();
    drawPositionAxis(pen, {...VIEWPORT, x: {from: -1, to: 1}}, INK, 20, 0, 'entry');
    expect(pen.log.filter(line => line.startsWith('fillText'))[0]).toMatch(/^fillText −1 /);
  });

  it('puts the words of a level at the left where the mark of an error stands in them', () => {
    const words = (...entries: number[]) => {
      const pen = loggingPen();
      const marks = entries.map(entry => ({entry, kind: 'oom' as const, label: ''}));
      const taken = placesOfErrors(VIEWPORT, marks, entry => entry);
      drawLevel(pen, VIEWPORT, INK.capacity, 2 ** 29, 'limit', taken);
      return pen.log.filter(line => line.startsWith('fillText'));
    };
    expect(words(50)).toEqual(['fillText limit 66 49']);
    expect(words(80)).toEqual(['fillText limit 4 49']);
    expect(words(10, 80)).toEqual(['fillText limit 66 49']);
    expect(words(300)).toEqual(['fillText limit 66 49']);
  });

  it('draws at most one mark every three pixels, however many there are', () => {
    const pen = loggingPen();
    const marks = Array.from({length: 10_000}, (_, i) => ({entry: i / 100, kind: 'oom' as const, label: ''}));
    drawMarks(pen, VIEWPORT, INK, marks, entry => entry);
    expect(pen.log.filter(line => line === 'stroke').length).toBeLessThanOrEqual(34);
  });

  it('outlines the run of pixels that show a band in each column', () => {
    expect(runOf(Uint32Array.of(1, 2, 2, 3), 0, 4, 2)).toEqual({low: 1, high: 3});
    expect(runOf(Uint32Array.of(1, 2, 2, 3), 0, 4, 9)).toBeUndefined();
    const shown = picture([1, 1]);
    shown.ids.set([0, 5, 5, 0, 0, 0, 0, 0]);
    const pen = loggingPen();
    drawBand(pen, VIEWPORT, shown, 4, 'accent');
    expect(pen.log).toEqual([
      'beginPath',
      'moveTo 0 25',
      'lineTo 50 25',
      'moveTo 0 75',
      'lineTo 50 75',
      'moveTo 0 25',
      'lineTo 0 75',
      'moveTo 50 25',
      'lineTo 50 75',
      'stroke',
    ]);
  });
});

describe('the strips', () => {
  const span = (name: string, start: number, end: number) => ({name, start, end});
  const device = {
    iterations: [
      {start: 0, end: 50, phases: [span('forward', 0, 30), span('backward', 30, 50)]},
      {start: 50, end: 100, phases: []},
    ],
    scopes: [{...span('ProfilerStep', 0, 90), depth: 0}],
  } as unknown as DeviceManifest;

  it('name what an entry lies in, outermost first', () => {
    expect(namesAt(device, 35)).toEqual(['iteration 0', 'backward', 'ProfilerStep']);
    expect(namesAt(device, 95)).toEqual(['iteration 1']);
  });

  it('draw only what is in view, and names only where they fit', () => {
    const pen = loggingPen();
    drawLanes(pen, {...VIEWPORT, x: {from: 60, to: 80}}, INK, device, entry => entry);
    expect(pen.log).toEqual([
      'fillRect -1 0 101 14',
      'fillText iteration 1 3 7',
      'fillRect -1 32 101 14',
      'fillText ProfilerStep 3 39',
    ]);
  });

  it('are drawn as one where they are below a pixel: a hundred thousand take no longer than the screen is wide', () => {
    const scopes = Array.from({length: 100_000}, (_, i) => ({...span('s', i / 1000, (i + 1) / 1000), depth: 0}));
    const pen = loggingPen();
    drawLanes(pen, VIEWPORT, INK, {iterations: [], scopes} as unknown as DeviceManifest, entry => entry);
    expect(pen.log.length).toBeLessThanOrEqual(200);
  });
});

describe('zooming', () => {
  const whole = {from: 0, to: 1000};

  it('keeps the place under the pointer', () => {
    const range = zoomed({from: 0, to: 1000}, whole, 250, 0.5, 'entry');
    expect(range).toEqual({from: 125, to: 625});
  });

  it('ends at ten entries and at the whole', () => {
    expect(zoomed({from: 100, to: 112}, whole, 105, 0.1, 'entry')).toEqual({
      from: 105 - (5 / 12) * 10,
      to: 105 + (7 / 12) * 10,
    });
    expect(zoomed({from: 100, to: 900}, whole, 105, 2, 'entry')).toBeNull();
  });
});
