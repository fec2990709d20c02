/** Knows which of several calls is the newest: an answer that comes after a newer call began is stale. */
export class Newest {
  private last = 0;

  /** Begins a call. Gives what says whether it is still the newest. */
  begin(): () => boolean {
    const mine = ++this.last;
    return () => mine === this.last;
  }
}
