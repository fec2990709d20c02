/** Groups of lifetimes: what a picture is coloured by, and what sums are told of. */

import type {Column} from '../data/section';

/** What lifetimes are grouped by. */
export const GROUPINGS = ['site', 'stack', 'category', 'stream', 'pool', 'size'] as const;

/** One of `GROUPINGS`. */
export type Grouping = (typeof GROUPINGS)[number];

/** The number of a group. */
export type Group = number;

/** Which group each row is in: `ofKey[key[row]]`. */
export interface Groups {
  readonly by: Grouping;
  readonly key: Column;
  readonly ofKey: Column;
  /** Number of groups. */
  readonly count: number;
  /** The words for a group. */
  label(group: Group): string;
}

/** Sums of a group. */
export interface GroupTotal {
  readonly group: Group;
  label: string;
  bytes: number;
  count: number;
}

/** The groups that any row is in, those with the most bytes in all their rows first. */
export function groupsOfRows(groups: Groups, bytesOf: (row: number) => number): Group[] {
  const bytes = new Float64Array(groups.count);
  const hasRows = new Uint8Array(groups.count);
  for (let row = 0; row < groups.key.length; row++) {
    const group = groups.ofKey[groups.key[row]];
    bytes[group] += bytesOf(row);
    hasRows[group] = 1;
  }
  return [...identity(groups.count)].filter(group => hasRows[group]).sort((a, b) => bytes[b] - bytes[a] || a - b);
}

/** Sums rows by group: most bytes first, groups without rows left out. */
export function totalsByGroup(groups: Groups, rows: Iterable<number>, bytesOf: (row: number) => number): GroupTotal[] {
  const bytes = new Float64Array(groups.count);
  const count = new Uint32Array(groups.count);
  for (const row of rows) {
    const group = groups.ofKey[groups.key[row]];
    bytes[group] += bytesOf(row);
    count[group]++;
  }
  const totals: GroupTotal[] = [];
  count.forEach((rowsOfGroup, group) => {
    if (rowsOfGroup > 0) {
      totals.push({group, label: groups.label(group), bytes: bytes[group], count: rowsOfGroup});
    }
  });
  return totals.sort((a, b) => b.bytes - a.bytes || a.group - b.group);
}

/** The power of two that a size reaches: 0 for up to 512 bytes, 1 for up to 1 KiB, … */
export function sizeClass(bytes: number): number {
  return bytes <= 512 ? 0 : Math.ceil(Math.log2(bytes / 512));
}

/** 0, 1, 2, … */
export function identity(count: number): Uint32Array {
  return Uint32Array.from({length: count}, (_, i) => i);
}
