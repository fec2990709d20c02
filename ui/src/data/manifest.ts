/** What the program says of a file before its columns: `docs/viewer-data.md`. */

/** How a payload is written: see the section on encodings. */
export type Encoding = 'raw' | 'varint' | 'delta' | 'length';

/** One column of numbers. */
export interface ColumnSection {
  type: 'u8' | 'u16' | 'u32' | 'f64';
  /** Numbers. */
  length: number;
  encoding?: Encoding;
  /** Every row has this value, and there is no payload. */
  constant?: number;
}

/** Whether a column's numbers have to be fetched. */
export function hasPayload(section: ColumnSection): boolean {
  return section.constant === undefined && section.length > 0;
}

/** One JSON document. */
export interface JsonSection {
  type: 'json';
}

/** A total and the entry after which it is first reached. */
export interface Peak {
  bytes: number;
  /** `null` before the first entry. */
  entry: number | null;
}

/** An out-of-memory error, a snapshot, or an annotation of one block. */
export interface Mark {
  entry: number;
  kind: 'oom' | 'snapshot' | 'annotate';
  label: string;
  bytes?: number;
}

/** A named stretch of entries: from `start`, up to and without `end`. */
export interface Span {
  name: string;
  start: number;
  end: number;
}

/** An annotated scope; `depth` 0 is outermost. */
export interface Scope extends Span {
  depth: number;
}

/** One iteration of the training loop. */
export interface Iteration {
  start: number;
  end: number;
  phases: Span[];
}

/** One device of the file. */
export interface DeviceManifest {
  device: number;
  /** Number of trace entries. */
  entries: number;
  /** Number of lifetimes. */
  rows: number;
  /** So many rows at the start began before the first entry. */
  before: number;
  unit_bytes: number;
  measure: 'active_bytes' | 'requested_bytes';
  knowledge: 'exact' | 'bounds' | 'estimate';
  reason?: string | null;
  recorded: {from_start: boolean; truncated: boolean; reason?: string | null};
  peak: Peak;
  end_bytes: number;
  reserved_peak: Peak;
  capacity_bytes?: number | null;
  /** Of the first and the last entry, microseconds since the Unix epoch. */
  time_us?: [number, number] | null;
  streams: string[];
  pools: {id: [number, number] | null; label: string}[];
  categories?: string[] | null;
  marks: Mark[];
  /** How many more there are. */
  marks_left_out?: number;
  scopes: Scope[];
  scopes_left_out?: number;
  iterations: Iteration[];
  sections: Record<string, ColumnSection>;
}

/** The whole file. */
export interface Manifest {
  format: 'highwater-view';
  version: number;
  name: string;
  torch: {version: string; known: boolean};
  warnings: {id: string; message: string; count: number; entry?: number; device?: number; byte?: number}[];
  left_out?: {below_bytes: number; allocations: number; bytes: number} | null;
  what_if: 'live' | 'precomputed' | 'left out';
  what_if_reason?: string | null;
  frames: number;
  stacks: number;
  sections: Record<string, ColumnSection | JsonSection>;
  /** The device that the report leads with: one that ran out of memory, or else the one with the highest peak. */
  opens_on?: number | null;
  devices: DeviceManifest[];
}

/** The device to show: the one that is asked for, or else the one that the report leads with. */
export function deviceToOpen(manifest: Manifest, asked: number | null): DeviceManifest | undefined {
  const numbered = (device: number | null | undefined) => manifest.devices.find(one => one.device === device);
  return numbered(asked) ?? numbered(manifest.opens_on) ?? manifest.devices[0];
}

/** The version of the format that this page reads. */
export const VIEW_VERSION = 1;
