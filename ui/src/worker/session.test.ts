import {afterEach, beforeEach, describe, expect, it, vi} from 'vitest';
import type {DeviceManifest, Manifest} from '../data/manifest';
import {Session} from './session';

const ROWS = 1_200_000;
const BYTES = 4 * ROWS;

/** What a column of the made-up device holds. */
const valueAt = (row: number) => row * 3;

/** Stretches that were asked for; `whole` is all of a column. */
let asked: string[] = [];
/** Requests for them. */
let requests = 0;

beforeEach(() => {
  asked = [];
  requests = 0;
  const column = Uint32Array.from({length: ROWS}, (_, row) => valueAt(row));
  vi.stubGlobal('fetch', async (address: string) => {
    const {pathname, searchParams} = new URL(address);
    if (pathname === '/sections/frames')
      return new Response('{"strings": [], "name": [], "file": [], "line": [], "owner": [], "labels": []}');
    requests++;
    if (pathname === '/sections/0/requested') {
      asked.push('whole');
      return new Response(column.buffer.slice(0));
    }
    expect(pathname).toBe('/stretches');
    const stretches = searchParams.getAll('of');
    asked.push(...stretches);
    const parts = stretches.map(stretch => {
      const [, name, from, to] = /^(.*):(\d+)-(\d+)$/.exec(stretch)!;
      expect(name).toBe('0/requested');
      expect(Number(to)).toBeLessThanOrEqual(BYTES);
      return column.buffer.slice(Number(from), Number(to));
    });
    return new Response(new Blob(parts));
  });
});
afterEach(() => vi.unstubAllGlobals());

async function session(): Promise<Session> {
  const constant = (value: number, length = ROWS) => ({type: 'u32' as const, length, constant: value});
  const pieces = ['segment', 'offset', 'size', 'start', 'end'].map(name => [`piece_${name}`, constant(0, 0)]);
  const device = {
    device: 0,
    entries: 10,
    rows: ROWS,
    before: ROWS,
    unit_bytes: 512,
    sections: {
      start: constant(0),
      end: constant(10),
      size: constant(1),
      stack: constant(0),
      pending_row: constant(0, 0),
      pending_entry: constant(0, 0),
      segment_address: constant(0, 0),
      ...Object.fromEntries(pieces),
      requested: {type: 'u32' as const, length: ROWS},
    },
  } as unknown as DeviceManifest;
  const stacks = ['node_parent', 'node_frame', 'stack_node', 'stack_site'].map(name => [name, constant(0, 0)]);
  const manifest = {devices: [device], sections: Object.fromEntries(stacks)} as unknown as Manifest;
  const addresses = {
    '0/requested': {url: 'http://local/sections/0/requested'},
    frames: {url: 'http://local/sections/frames'},
  };
  return Session.open({manifest, device: 0, addresses});
}

describe('numbers of a large column', () => {
  it('are fetched in parts, once each', async () => {
    const opened = await session();
    const rows = [0, 1, 511, 512, 500_000, ROWS - 1];
    expect(Array.from(await opened.cells('requested', rows))).toEqual(rows.map(valueAt));
    expect(asked).toHaveLength(4);
    expect(asked).not.toContain('whole');
    expect(requests).toBe(1);
    expect(await opened.cell('requested', 513)).toBe(valueAt(513));
    expect(asked).toHaveLength(4);
    expect(Array.from(await opened.cells('requested', []))).toEqual([]);
  });

  it('are fetched whole where the rows lie in too many parts', async () => {
    const opened = await session();
    const rows = Array.from({length: 300}, (_, i) => i * 4000);
    expect(Array.from(await opened.cells('requested', rows))).toEqual(rows.map(valueAt));
    expect(asked).toEqual(['whole']);
  });

  it('are let go when many others were asked for since', async () => {
    const opened = await session();
    for (let row = 0; row < ROWS; row += 512) expect(await opened.cell('requested', row)).toBe(valueAt(row));
    const parts = asked.length;
    expect(await opened.cell('requested', 0)).toBe(0);
    expect(asked).toHaveLength(parts + 1);
    expect(await opened.cell('requested', ROWS - 1)).toBe(valueAt(ROWS - 1));
    expect(asked).toHaveLength(parts + 1);
  });
});
