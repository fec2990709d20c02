import {describe, expect, it} from 'vitest';
import {random} from '../testing/lifetimes';
import type {ColumnSection, Encoding} from './manifest';
import {decodeColumn} from './section';

function leb128(values: number[]): Uint8Array {
  const bytes: number[] = [];
  for (let value of values) {
    for (; value >= 128; value = Math.floor(value / 128)) bytes.push((value % 128) | 0x80);
    bytes.push(value);
  }
  return Uint8Array.from(bytes);
}

function zigzag(values: number[]): number[] {
  return values.map((value, i) => {
    const by = value - (i === 0 ? 0 : values[i - 1]);
    return by >= 0 ? by * 2 : -by * 2 - 1;
  });
}

describe('a column', () => {
  const next = random(4);
  const most = {u8: 255, u16: 65_535, u32: 4_294_967_295, f64: 2 ** 48};
  const section = (type: ColumnSection['type'], encoding: Encoding): ColumnSection => ({type, encoding, length: 100});

  it('comes out of every encoding as it went in, up to the largest numbers of its type', () => {
    for (const type of ['u8', 'u16', 'u32', 'f64'] as const) {
      const values = Array.from({length: 100}, (_, i) => (i % 3 === 0 ? most[type] : Math.floor(next() * most[type])));
      expect(Array.from(decodeColumn(section(type, 'varint'), leb128(values)))).toEqual(values);
      expect(Array.from(decodeColumn(section(type, 'delta'), leb128(zigzag(values))))).toEqual(values);
    }
  });

  it('counts lengths from the other column', () => {
    const starts = Uint32Array.from({length: 100}, (_, i) => i * 10);
    const lengths = Array.from({length: 100}, (_, i) => i);
    const column = decodeColumn(section('u32', 'length'), leb128(lengths), starts);
    expect(Array.from(column)).toEqual(Array.from(starts, (start, i) => start + i));
  });

  it('is the bytes themselves when raw, wherever they begin', () => {
    const payload = new Uint8Array(401).subarray(1);
    new DataView(payload.buffer, 1).setUint32(8, 77, true);
    expect(decodeColumn(section('u32', 'raw'), payload)[2]).toBe(77);
  });

  it('needs no bytes where every row is equal', () => {
    expect(Array.from(decodeColumn({type: 'u8', length: 3, constant: 7}, new Uint8Array()))).toEqual([7, 7, 7]);
  });

  it('is refused when it was cut or has more than it should', () => {
    expect(() => decodeColumn(section('u32', 'raw'), new Uint8Array(399))).toThrow('400 bytes came with 399');
    expect(() => decodeColumn(section('u8', 'varint'), leb128(Array(99).fill(1)))).toThrow('took 100 bytes of 99');
    expect(() => decodeColumn(section('u8', 'varint'), leb128(Array(101).fill(1)))).toThrow('took 100 bytes of 101');
  });
});
