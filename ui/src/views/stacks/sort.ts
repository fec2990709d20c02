/** The rows of the table of frames: filtered and in order. */

import type {KeyTotals} from '../../model/flame-tree';

/** What the table can be sorted by. */
export const SORTS = ['self', 'total', 'selfCount', 'totalCount', 'name'] as const;

/** One of `SORTS`. */
export type Sort = (typeof SORTS)[number];

/** Places in the totals, in order: largest first, names from A. Equal ones by key. */
export function sortedRows(
  totals: KeyTotals,
  by: Sort,
  isReversed: boolean,
  labelOf: (key: number) => string,
  isWanted?: (key: number) => boolean,
): Uint32Array {
  const {key} = totals;
  const rows = Uint32Array.from(key, (_, i) => i).filter(i => !isWanted || isWanted(key[i]));
  const labels = by === 'name' ? Array.from(key, labelOf) : [];
  const order = (a: number, b: number) => {
    if (by !== 'name') return totals[by][b] - totals[by][a];
    return labels[a] < labels[b] ? -1 : labels[a] > labels[b] ? 1 : 0;
  };
  return rows.sort((a, b) => (isReversed ? -order(a, b) : order(a, b)) || a - b);
}
