/** Lifetimes that await their free: freed by their owner, and not yet returned to their pool. */

/** The rows that await their free for longer than an entry. */
export interface Pending {
  /** One byte a row: 1 if it is among them. */
  readonly isPending: Uint8Array;
  /** The entry of its `free_requested`. */
  readonly requestedAt: ReadonlyMap<number, number>;
}

/** Whether an active row awaits its free after an entry. */
export function awaitsFree(pending: Pending, row: number, entry: number): boolean {
  return pending.isPending[row] === 1 && pending.requestedAt.get(row)! <= entry;
}
