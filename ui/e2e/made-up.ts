/** A server of made-up columns: ten million entries in a second, without a recording of a gigabyte. */

import {readFileSync} from 'node:fs';
import {createServer, type Server} from 'node:http';
import {join} from 'node:path';
import {ROOT} from './browser';

/** Allocations that are always active, each of 64 MiB, below a churn of small ones. */
const LASTING = 40;
const LASTING_UNITS = 131_072;
/** Entries of one turn: an alloc, a free_requested and a free_completed for each of so many small allocations. */
const CHURN = 100;

/** What is served. */
export interface MadeUp {
  readonly address: string;
  /** The one allocation of 512 bytes. */
  readonly needle: {row: number; start: number; end: number};
  stop(): void;
}

/** Serves a recording of about so many entries. */
export async function serveMadeUp(entries: number): Promise<MadeUp> {
  const turns = Math.floor((entries - LASTING) / (CHURN * 3));
  const rows = LASTING + turns * CHURN;
  const start = new Uint32Array(rows);
  const end = new Uint32Array(rows);
  const size = new Uint32Array(rows);
  const all = LASTING + turns * CHURN * 3;
  for (let row = 0; row < LASTING; row++) {
    start[row] = row;
    end[row] = all;
    size[row] = LASTING_UNITS;
  }
  for (let turn = 0; turn < turns; turn++) {
    const first = LASTING + turn * CHURN * 3;
    for (let i = 0; i < CHURN; i++) {
      const row = LASTING + turn * CHURN + i;
      start[row] = first + i;
      end[row] = first + CHURN + 2 * i + 1;
      size[row] = 2000 + ((row * 7919) % 6000);
    }
  }
  const needle = LASTING + Math.floor(turns * 0.618) * CHURN + 50;
  size[needle] = 1;

  const column = (array: Uint8Array | Uint16Array | Uint32Array | Float64Array) => {
    const type = {1: 'u8', 2: 'u16', 4: 'u32', 8: 'f64'}[array.BYTES_PER_ELEMENT];
    return {info: {type, length: array.length, encoding: 'raw'}, bytes: Buffer.from(array.buffer)};
  };
  const constant = (length: number, value: number) => ({
    info: {type: 'u8', length, encoding: 'raw', constant: value},
    bytes: Buffer.alloc(0),
  });
  const ofDevice = {
    start: column(start),
    end: column(end),
    size: column(size),
    requested: column(size.map(units => units * 512)),
    stack: constant(rows, 0),
    segment: constant(rows, 0),
    offset: constant(rows, 0),
    stream: constant(rows, 0),
    pool: constant(rows, 0),
    pending_row: column(new Uint8Array(0)),
    pending_entry: column(new Uint8Array(0)),
    segment_address: column(Float64Array.of(2 ** 40)),
    segment_size: column(Uint32Array.of(8_000_000)),
    segment_stream: constant(1, 0),
    segment_pool: constant(1, 0),
    segment_stack: constant(1, 0),
    segment_flags: constant(1, 0),
    piece_segment: constant(1, 0),
    piece_offset: constant(1, 0),
    piece_size: column(Uint32Array.of(8_000_000)),
    piece_start: constant(1, 0),
    piece_end: column(Uint32Array.of(all)),
    ...Object.fromEntries(
      ['entry', 'action', 'address', 'size', 'stack', 'free'].map(name => [`other_${name}`, column(new Uint8Array(0))]),
    ),
  };
  const ofFile = {
    node_parent: column(Uint8Array.of(0)),
    node_frame: column(Uint8Array.of(0)),
    stack_node: column(Uint8Array.of(0)),
    stack_site: column(Uint8Array.of(0)),
  };
  const infos = (columns: Record<string, {info: unknown}>) =>
    Object.fromEntries(Object.entries(columns).map(([name, {info}]) => [name, info]));
  const peakBytes = 0;
  const manifest = {
    format: 'highwater-view',
    version: 1,
    name: 'made-up',
    torch: {version: '2.11', known: true},
    warnings: [],
    what_if: 'left out',
    what_if_reason: 'made up',
    frames: 1,
    stacks: 1,
    sections: {...infos(ofFile), frames: {type: 'json'}, report: {type: 'json'}},
    devices: [
      {
        device: 0,
        entries: all,
        rows,
        before: 0,
        unit_bytes: 512,
        measure: 'active_bytes',
        knowledge: 'exact',
        headline: 'made up',
        recorded: {from_start: true, truncated: false},
        peak: {bytes: peakBytes, entry: 0},
        end_bytes: 0,
        reserved_peak: {bytes: 8_000_000 * 512, entry: 0},
        streams: ['0'],
        pools: [{id: null, label: 'default pool'}],
        marks: [],
        scopes: [],
        iterations: [],
        sections: infos(ofDevice),
      },
    ],
  };
  const frames = {strings: ['step', 'train.py'], name: [0], file: [1], line: [7], owner: [0], labels: []};
  const answers = new Map<string, Buffer>([
    ['/api/files', json({files: [{id: 0, name: 'made-up', state: 'ready'}]})],
    ['/api/files/0/manifest', json(manifest)],
    ['/api/files/0/sections/frames', json(frames)],
    ...Object.entries(ofFile).map(([name, {bytes}]) => [`/api/files/0/sections/${name}`, bytes] as const),
    ...Object.entries(ofDevice).map(([name, {bytes}]) => [`/api/files/0/sections/0/${name}`, bytes] as const),
  ]);
  const server: Server = createServer((request, response) => {
    const {pathname: path, searchParams} = new URL(request.url!, 'http://x');
    if (path === '/api/files/0/stretches') {
      const parts = searchParams.getAll('of').map(one => {
        const [, name, from, to] = /^(.*):(\d+)-(\d+)$/.exec(one)!;
        return answers.get(`/api/files/0/sections/${name}`)!.subarray(Number(from), Number(to));
      });
      response.writeHead(200).end(Buffer.concat(parts));
      return;
    }
    const known = answers.get(path);
    if (!known) {
      const name = path === '/' ? 'index.html' : path.slice(1);
      const kind = name.endsWith('.js') ? 'text/javascript' : name.endsWith('.css') ? 'text/css' : 'text/html';
      response.writeHead(200, {'content-type': kind}).end(readFileSync(join(ROOT, 'ui/dist', name)));
      return;
    }
    response.writeHead(200).end(known);
  });
  await new Promise<void>(done => server.listen(0, '127.0.0.1', done));
  const {port} = server.address() as {port: number};
  return {
    address: `http://127.0.0.1:${port}/`,
    needle: {row: needle, start: start[needle], end: end[needle]},
    stop: () => server.close(),
  };
}

function json(value: unknown): Buffer {
  return Buffer.from(JSON.stringify(value));
}
