/** Made by `make schemas` of the comments in crates/documents: change these. */

/**
 * How the payload of a section says its numbers.
 */
export type Encoding = 'raw' | 'varint' | 'delta' | 'length';
/**
 * The type of the numbers of a section.
 */
export type Kind = 'u8' | 'u16' | 'u32' | 'f64' | 'json';
/**
 * The source of the answers to "what if".
 */
export type WhatIf = 'live' | 'precomputed' | 'left out';

/**
 * The columns that the viewer draws. Made by `highwater view`.
 */
export interface Manifest {
  /**
   * One for each device; they are never summed.
   */
  devices: DeviceManifest[];
  /**
   * The name of the document.
   */
  format: 'highwater-view';
  /**
   * Number of distinct frames.
   */
  frames: number;
  /**
   * The entries that are not shown.
   */
  left_out?: LeftOut;
  /**
   * The file's name, without its directory.
   */
  name: string;
  /**
   * The device that the page opens on: the one that the report leads with.
   */
  opens_on?: number;
  /**
   * The names of other actions than PyTorch's own, which have the codes after those.
   */
  other_actions?: string[];
  /**
   * The sections of the whole file.
   */
  sections: {
    [k: string]: SectionInfo;
  };
  /**
   * Number of distinct stacks, including the two placeholders for a missing stack.
   */
  stacks: number;
  /**
   * The version of PyTorch that wrote it, as far as the file shows.
   */
  torch: Torch;
  /**
   * The version of its shape.
   */
  version: 1;
  /**
   * Warnings.
   */
  warnings: Warning[];
  /**
   * Whether the page can simulate.
   */
  what_if: WhatIf;
  /**
   * Why it cannot.
   */
  what_if_reason?: string;
}
/**
 * One device.
 */
export interface DeviceManifest {
  /**
   * The number of lifetimes that began before the first entry; they are the first rows.
   */
  before: number;
  /**
   * The memory available to the process when a request failed: a certain lower bound.
   */
  capacity_bytes?: number;
  /**
   * The names of the categories; absent if no allocation has one.
   */
  categories?: string[];
  /**
   * The level that reserved memory could not pass, where a request failed: the line that the page draws.
   */
  ceiling?: Ceiling;
  /**
   * CUDA ordinal.
   */
  device: number;
  /**
   * The total of `measure` after the last entry.
   */
  end_bytes: number;
  /**
   * Number of trace entries: the x axis is 0 to this.
   */
  entries: number;
  /**
   * The answer in one line: the failure and its cause, or the peak.
   */
  headline: string;
  /**
   * The iterations.
   */
  iterations: IterationSpan[];
  /**
   * How exactly the sizes of blocks are known: `exact`, `bounds` or `estimate`.
   */
  knowledge: string;
  /**
   * Notable moments: at most 10,000, errors first.
   */
  marks: Mark[];
  /**
   * The number of further moments, which are left out.
   */
  marks_left_out?: number;
  /**
   * The meaning of `size`: `active_bytes`, or `requested_bytes` where the sizes of blocks are estimates.
   */
  measure: string;
  /**
   * The process's memory on the GPU outside PyTorch, where the driver was recorded.
   */
  outside?: Outside;
  /**
   * The largest total of `measure` after an entry.
   */
  peak: PeakAt;
  /**
   * Pools.
   */
  pools: Pool[];
  /**
   * Why not exactly.
   */
  reason?: string;
  /**
   * The part of the run that the trace holds.
   */
  recorded: Recorded;
  /**
   * The largest reserved total after an entry.
   */
  reserved_peak: PeakAt;
  /**
   * Number of lifetimes.
   */
  rows: number;
  /**
   * Annotated scopes: at most 100,000, the outermost.
   */
  scopes: Scope[];
  /**
   * The number of further scopes, which are left out.
   */
  scopes_left_out?: number;
  /**
   * The device's own sections, without its name before theirs.
   */
  sections: {
    [k: string]: SectionInfo;
  };
  /**
   * The handles, as text.
   */
  streams: string[];
  /**
   * The first and the last time, in microseconds since the Unix epoch; absent if the entries have no times.
   *
   * @minItems 2
   * @maxItems 2
   */
  time_us?: [number, number];
  /**
   * The unit of sizes and offsets: a power of two, 512 if all sizes allow it.
   */
  unit_bytes: number;
}
/**
 * The level that reserved memory could not pass, for a line in a picture.
 */
export interface Ceiling {
  /**
   * The level.
   */
  bytes: number;
  /**
   * Its label, with the number: `limit below 8.12 GiB` or `available 7.91 GiB`.
   */
  label: string;
}
/**
 * An iteration, in entries.
 */
export interface IterationSpan {
  /**
   * One past the last.
   */
  end: number;
  /**
   * Its phases.
   */
  phases: PhaseSpan[];
  /**
   * First entry.
   */
  start: number;
}
/**
 * A phase, in entries.
 */
export interface PhaseSpan {
  /**
   * One past the last.
   */
  end: number;
  /**
   * `forward`, `backward` or `optimizer`.
   */
  name: string;
  /**
   * First entry.
   */
  start: number;
}
/**
 * A notable moment.
 */
export interface Mark {
  /**
   * The request, or the allocation.
   */
  bytes?: number;
  /**
   * The entry.
   */
  entry: number;
  /**
   * `oom`, `snapshot` or `annotate`.
   */
  kind: 'oom' | 'snapshot' | 'annotate';
  /**
   * Its name.
   */
  label: string;
}
/**
 * Memory outside PyTorch on a GPU.
 */
export interface Outside {
  /**
   * Allocations without a row, the smallest: there are too many.
   */
  blocks_left_out?: number;
  /**
   * The GPU's memory, if it is known.
   */
  capacity_bytes?: number;
  /**
   * The owners, largest first.
   */
  owners: OutsideOwner[];
  /**
   * The largest sum of the owners after an entry.
   */
  peak: PeakAt;
  /**
   * Call sites of the allocations, in words.
   */
  sites: string[];
}
/**
 * The owner of memory.
 */
export interface OutsideOwner {
  /**
   * As in the report: `library`, `code`, `kernels`, `graphs`, `streams`, `context`.
   */
  role: string;
  /**
   * The words for it.
   */
  title: string;
}
/**
 * A total and its entry.
 */
export interface PeakAt {
  /**
   * The total.
   */
  bytes: number;
  /**
   * After which entry.
   */
  entry: number;
}
/**
 * A memory pool.
 */
export interface Pool {
  /**
   * The id of a private pool; null for the default pool, and where the file names none.
   *
   * @minItems 2
   * @maxItems 2
   */
  id: [number, number] | null;
  /**
   * Its name.
   */
  label: string;
}
/**
 * The part of the run that the trace holds.
 */
export interface Recorded {
  /**
   * Advice for a complete recording.
   */
  advice?: string;
  /**
   * Why it does not hold the whole run, by name: see `Cause::name`.
   */
  cause?: string;
  /**
   * Nothing was there before the first entry.
   */
  from_start: boolean;
  /**
   * Why, in words.
   */
  reason: string | null;
  /**
   * Entries were lost: the ring buffer wrapped, or the file was cut.
   */
  truncated: boolean;
}
/**
 * An annotation, in entries.
 */
export interface Scope {
  /**
   * The number of scopes around it.
   */
  depth: number;
  /**
   * One past the last.
   */
  end: number;
  /**
   * Its name.
   */
  name: string;
  /**
   * First entry inside.
   */
  start: number;
}
/**
 * The description of a section in the manifest.
 */
export interface SectionInfo {
  /**
   * The value of every row, if they are all equal; there is no payload then.
   */
  constant?: number;
  /**
   * How the payload says them.
   */
  encoding: Encoding;
  /**
   * How many there are; absent of JSON.
   */
  length?: number;
  /**
   * The type of its numbers.
   */
  type: Kind;
}
/**
 * Lifetimes that are not shown.
 */
export interface LeftOut {
  /**
   * Their number.
   */
  allocations: number;
  /**
   * All of them are smaller than this.
   */
  below_bytes: number;
  /**
   * The most bytes of them that were live at once on a device: the drawn area is nowhere too low by more.
   */
  bytes: number;
}
/**
 * The version that the file shows.
 */
export interface Torch {
  /**
   * Whether the version is certain.
   */
  known: boolean;
  /**
   * A version, or a span such as `2.10 to 2.11`; `unknown` of a profiler's file.
   */
  version: string;
}
/**
 * A warning of the reader or the analysis.
 */
export interface Warning {
  /**
   * Offset of the first case in the decompressed input.
   */
  byte?: number;
  /**
   * The number of times.
   */
  count: number;
  /**
   * Device of the first case.
   */
  device?: number;
  /**
   * Entry of the first case.
   */
  entry?: number;
  /**
   * A stable word for its kind.
   */
  id: string;
  /**
   * The warning in words.
   */
  message: string;
}
