/** Recordings in a few thousand numbers, and what the program says when it compares two: `docs/viewer-data.md`. */

import type {Peak} from './manifest';

/** A device over its entries, in equal parts of them. */
export interface Curve {
  device: number;
  entries: number;
  /** What `bytes` counts. */
  measure: 'active_bytes' | 'requested_bytes';
  peak: Peak;
  reserved_peak: Peak;
  /** The highest total in each part; part `i` of `n` begins at the first entry no less than `i / n` of all. */
  bytes: number[];
  reserved_bytes: number[];
  /** Microseconds to where each part begins, and to the last entry. */
  time_us?: number[];
  /** The entries that failed. */
  ooms: number[];
  /** The first entry of each iteration, and the one after its last. */
  iterations: [number, number][];
}

/** The devices of a file. */
export interface Curves {
  opens_on?: number;
  devices: Curve[];
}

/** The device to show: the one of the same number, or else the one that the report leads with. */
export function curveToShow({devices, opens_on}: Curves, asked: number | null): Curve | undefined {
  const numbered = (number: number | null | undefined) => devices.find(({device}) => device === number);
  return numbered(asked) ?? numbered(opens_on) ?? devices[0];
}

/** The stacks of two files in one tree. */
export interface StackTree {
  /** Of all stacks, in each file. */
  bytes: [number, number];
  /** Callers before callees; `parent` is a place in the list. */
  nodes: {parent: number | null; text: string; bytes: [number, number]}[];
}
