/** Totals over the recording, or over a part of it, for small charts. */

import type {AxisRange} from '../model/axis';
import type {Session} from './session';

/** The extremes of each of some columns, which part the entries evenly. */
export interface TotalsOverTime {
  /** The first entry of each column. */
  readonly entries: Uint32Array;
  /** The largest and the smallest total of the measure. */
  readonly highBytes: Float64Array;
  readonly lowBytes: Float64Array;
  /** The most that was reserved. */
  readonly reservedBytes: Float64Array;
}

/** About `columns` columns of the entries within a stretch; fewer if there are fewer entries. */
export async function totalsOverTime(session: Session, columns: number, within?: AxisRange): Promise<TotalsOverTime> {
  const {index, lifetimes} = session;
  const {index: reserved} = await session.pieces();
  const {entries, unitBytes} = lifetimes;
  const first = Math.min(Math.max(0, Math.floor(within?.from ?? 0)), entries - 1);
  const end = Math.min(Math.max(first + 1, Math.ceil(within?.to ?? entries)), entries);
  const count = Math.max(1, Math.min(columns, end - first));
  const totals = {
    entries: new Uint32Array(count),
    highBytes: new Float64Array(count),
    lowBytes: new Float64Array(count),
    reservedBytes: new Float64Array(count),
  };
  for (let column = 0; column < count; column++) {
    const from = first + Math.floor((column * (end - first)) / count);
    const to = first + Math.floor(((column + 1) * (end - first)) / count);
    totals.entries[column] = from;
    totals.highBytes[column] = index.highestIn(from, to).total * unitBytes;
    totals.lowBytes[column] = index.lowestIn(from, to).total * unitBytes;
    totals.reservedBytes[column] = reserved.highestIn(from, to).total * unitBytes;
  }
  return totals;
}
