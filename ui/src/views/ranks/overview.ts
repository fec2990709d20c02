/** What stands out among many recordings. */

import type {Curve} from '../../data/curves';

/** A device of a file. */
export interface Rank {
  readonly file: number;
  /** Of the file, short. */
  readonly name: string;
  readonly curve: Curve;
}

/** How ranks are ordered. */
export const ORDERS = ['peak', 'name'] as const;
export type RankOrder = (typeof ORDERS)[number];

/** The middle of all, or between the two in the middle. */
export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length / 2;
  if (sorted.length === 0) return 0;
  return Number.isInteger(middle) ? (sorted[middle - 1] + sorted[middle]) / 2 : sorted[Math.floor(middle)];
}

/** Nearer to the median than this part of it, nothing is worth a word. */
const NOTABLE = 0.02;

/** The one that is farthest from the median, where it is far. */
export interface Outlier {
  readonly rank: Rank;
  readonly medianBytes: number;
  /** Above it; below it if negative. */
  readonly differenceBytes: number;
}

export function outlierOf(ranks: readonly Rank[]): Outlier | undefined {
  if (ranks.length < 3) return undefined;
  const medianBytes = median(ranks.map(({curve}) => curve.peak.bytes));
  const far = ({curve}: Rank) => Math.abs(curve.peak.bytes - medianBytes);
  const rank = ranks.reduce((farthest, one) => (far(one) > far(farthest) ? one : farthest));
  if (far(rank) <= medianBytes * NOTABLE) return undefined;
  return {rank, medianBytes, differenceBytes: rank.curve.peak.bytes - medianBytes};
}

/** In the order that is asked for: the highest peak first, or by name as people count. */
export function ordered(ranks: readonly Rank[], order: RankOrder): Rank[] {
  const byName = (a: Rank, b: Rank) =>
    a.name.localeCompare(b.name, 'en', {numeric: true}) || a.curve.device - b.curve.device || a.file - b.file;
  const byPeak = (a: Rank, b: Rank) => b.curve.peak.bytes - a.curve.peak.bytes || byName(a, b);
  return [...ranks].sort(order === 'peak' ? byPeak : byName);
}

/** The file that many steps on, round and round; the same where there is no other. */
export function fileAfter(files: readonly {id: number; state: string}[], open: number, step: number): number {
  const shown = files.filter(({state}) => state !== 'failed');
  const at = shown.findIndex(({id}) => id === open);
  if (shown.length === 0) return open;
  return shown[(Math.max(at, 0) + step + shown.length) % shown.length].id;
}
