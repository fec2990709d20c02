/** Totals over the whole recording, for small charts. */

import {Transferred} from './rpc';
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

export async function totalsOverTime(session: Session, columns: number): Promise<TotalsOverTime> {
  const {index, lifetimes} = session;
  const reserved = await session.reserved();
  const count = Math.max(1, Math.min(columns, lifetimes.entries));
  const totals = {
    entries: new Uint32Array(count),
    highBytes: new Float64Array(count),
    lowBytes: new Float64Array(count),
    reservedBytes: new Float64Array(count),
  };
  for (let column = 0; column < count; column++) {
    const from = Math.floor((column * lifetimes.entries) / count);
    const to = Math.floor(((column + 1) * lifetimes.entries) / count);
    totals.entries[column] = from;
    totals.highBytes[column] = index.highestIn(from, to).total * lifetimes.unitBytes;
    totals.lowBytes[column] = index.lowestIn(from, to).total * lifetimes.unitBytes;
    totals.reservedBytes[column] = reserved.maxIn(from, to);
  }
  return totals;
}

/** A step function: after `entries[i]` it is `values[i]`. */
export interface Steps {
  readonly entries: Uint32Array;
  readonly values: Float64Array;
}

/** What was reserved over the entries. */
export async function reservedSteps(session: Session): Promise<Transferred<Steps>> {
  const steps = await session.reserved();
  const entries = steps.entries.slice();
  const values = steps.values.slice();
  return new Transferred({entries, values}, [entries.buffer, values.buffer]);
}
