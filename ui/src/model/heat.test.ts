import {describe, expect, it} from 'vitest';
import {type HeatDevice, measuresOf, paintHeat, partOfRow, rowAt, rowsOf, STEPS} from './heat';

const device = (bytes: number[], more: Record<string, number[]> = {}): HeatDevice => ({
  device: 0,
  entries: bytes.map((_, part) => part * 10),
  bytes: {reserved: bytes, ...more},
});
const places = [0, 1, 2];
const colours = Uint32Array.from({length: STEPS}, (_, step) => step + 1);

function painted(rows: number[][], width: number, height: number, x = {from: 0, to: 2}): number[] {
  const data = rowsOf(
    rows.map(bytes => device(bytes)),
    'reserved',
    () => places,
  );
  const out = new Uint32Array(width * height);
  paintHeat(data, {width, height, x, highBytes: 256}, colours, 0, out);
  return [...out];
}

describe('a heat map', () => {
  it('has a line for each row and a colour for each part', () => {
    expect(
      painted(
        [
          [0, 100],
          [200, 50],
        ],
        2,
        2,
      ),
    ).toEqual([1, 101, 201, 51]);
    expect(painted([[0, 100]], 4, 2)).toEqual([1, 1, 101, 101, 1, 1, 101, 101]);
  });

  it('loses no peak where several parts or rows share a pixel', () => {
    expect(painted([[10, 90]], 1, 1)).toEqual([91]);
    expect(
      painted(
        [
          [10, 10],
          [90, 10],
          [10, 10],
        ],
        1,
        1,
      ),
    ).toEqual([91]);
    expect(
      painted(
        [
          [10, 10],
          [90, 10],
          [10, 10],
          [10, 10],
        ],
        1,
        2,
      ),
    ).toEqual([91, 11]);
  });

  it('shows a stretch of the axis, and the background beside the rows', () => {
    expect(painted([[7, 9]], 2, 1, {from: 1, to: 3})).toEqual([10, 0]);
  });

  it('has a row that is not read yet as background', () => {
    const data = rowsOf([undefined, device([5, 5])], 'reserved', () => places);
    const out = new Uint32Array(4);
    paintHeat(data, {width: 2, height: 2, x: {from: 0, to: 2}, highBytes: 256}, colours, 0, out);
    expect([...out]).toEqual([0, 0, 6, 6]);
    expect([partOfRow(data, 0, 1), partOfRow(data, 1, 0), partOfRow(data, 1, 1.5), partOfRow(data, 1, 2)]).toEqual([
      -1, 0, 1, -1,
    ]);
  });

  it('finds the row at a height, and the measures that there are', () => {
    expect([rowAt(3, 30, 0), rowAt(3, 30, 29), rowAt(3, 30, 99), rowAt(1000, 500, 250)]).toEqual([0, 2, 2, 500]);
    expect(measuresOf([device([1], {activation: [1], allocated: [1]})])).toEqual([
      'reserved',
      'allocated',
      'activation',
    ]);
  });
});
