/** Sections: from bytes as they were sent to typed arrays. */

import type {ColumnSection} from './manifest';

/** A column of numbers. */
export type Column = Uint8Array | Uint16Array | Uint32Array | Float64Array;

/** A typed array of a section's type and length, filled with zeros. */
export function emptyColumn(section: ColumnSection): Column {
  switch (section.type) {
    case 'u8':
      return new Uint8Array(section.length);
    case 'u16':
      return new Uint16Array(section.length);
    case 'u32':
      return new Uint32Array(section.length);
    case 'f64':
      return new Float64Array(section.length);
  }
}

/** Bytes of a column as it is served. */
export function bytesOf(section: ColumnSection): number {
  return section.length * {u8: 1, u16: 2, u32: 4, f64: 8}[section.type];
}

/**
 * Decodes a column.
 *
 * `starts` is the column that the encoding `length` counts from. Throws if the payload has another length than the
 * manifest says: a page that was cut must not look like a smaller recording.
 */
export function decodeColumn(section: ColumnSection, payload: Uint8Array, starts?: Column): Column {
  const column = emptyColumn(section);
  if (section.constant !== undefined) {
    column.fill(section.constant);
    return column;
  }
  if ((section.encoding ?? 'raw') === 'raw') return rawColumn(column, payload);
  const reader = new VarintReader(payload);
  switch (section.encoding) {
    case 'varint':
      for (let row = 0; row < column.length; row++) column[row] = reader.next();
      break;
    case 'delta': {
      let previous = 0;
      for (let row = 0; row < column.length; row++) {
        // Zigzag: even numbers stand for 0, 1, 2, odd ones for -1, -2, -3.
        const value = reader.next();
        previous += value % 2 === 0 ? value / 2 : -(value + 1) / 2;
        column[row] = previous;
      }
      break;
    }
    case 'length':
      if (starts?.length !== column.length) throw new Error('lengths need the column that they count from');
      for (let row = 0; row < column.length; row++) column[row] = starts[row] + reader.next();
      break;
  }
  if (reader.at !== payload.length) {
    throw new Error(`a column of ${column.length} rows took ${reader.at} bytes of ${payload.length}`);
  }
  return column;
}

function rawColumn(column: Column, payload: Uint8Array): Column {
  if (payload.byteLength !== column.byteLength) {
    throw new Error(`a column of ${column.byteLength} bytes came with ${payload.byteLength}`);
  }
  if (payload.byteOffset % column.BYTES_PER_ELEMENT === 0) {
    const view = column.constructor as new (buffer: ArrayBufferLike, offset: number, length: number) => Column;
    return new view(payload.buffer, payload.byteOffset, column.length);
  }
  new Uint8Array(column.buffer).set(payload);
  return column;
}

/** Reads numbers in LEB128; up to 2^53 they are exact. Past the end come zeros: who reads looks at `at` in the end. */
class VarintReader {
  /** Bytes that were read. */
  at = 0;
  private readonly payload: Uint8Array;

  constructor(payload: Uint8Array) {
    this.payload = payload;
  }

  next(): number {
    let byte = this.payload[this.at++];
    let value = byte & 0x7f;
    for (let scale = 128; byte & 0x80; scale *= 128) {
      byte = this.payload[this.at++];
      value += (byte & 0x7f) * scale;
    }
    return value;
  }
}
