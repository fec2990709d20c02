/** What stands out among many recordings. */

import type {Curve} from '../../data/curves';

/** A device of a file. */
export interface Rank {
  readonly file: number;
  /** Of the file, short. */
  readonly name: string;
  readonly curve: Curve;
}

/** How ranks are ordered: by the highest and the mean of what is shown, or by name. */
export const ORDERS = ['peak', 'name', 'mean'] as const;
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

/** Small pictures of each, or all in one. */
export const FORMS = ['pictures', 'heat map'] as const;

/** In the order that is asked for: the highest peak or mean first, or by name as people count. */
export function ordered(
  ranks: readonly Rank[],
  order: RankOrder,
  peak: (rank: Rank) => number = ({curve}) => curve.peak.bytes,
  mean: (rank: Rank) => number = meanOf,
): Rank[] {
  const byName = (a: Rank, b: Rank) =>
    a.name.localeCompare(b.name, 'en', {numeric: true}) || a.curve.device - b.curve.device || a.file - b.file;
  const by = (value: (rank: Rank) => number) => {
    const values = new Map(ranks.map(rank => [rank, value(rank)]));
    return (a: Rank, b: Rank) => values.get(b)! - values.get(a)! || byName(a, b);
  };
  return [...ranks].sort({peak: by(peak), mean: by(mean), name: byName}[order]);
}

/** The mean of a picture; of a rank without one, its peak. */
function meanOf({curve}: Rank): number {
  if (curve.bytes.length === 0) return curve.peak.bytes;
  return curve.bytes.reduce((sum, bytes) => sum + bytes, 0) / curve.bytes.length;
}

/** The file that many steps on, round and round; the same where there is no other. */
export function fileAfter(files: readonly {id: number; state: string}[], open: number, step: number): number {
  const shown = files.filter(({state}) => state !== 'failed');
  const at = shown.findIndex(({id}) => id === open);
  if (shown.length === 0) return open;
  return shown[(Math.max(at, 0) + step + shown.length) % shown.length].id;
}
