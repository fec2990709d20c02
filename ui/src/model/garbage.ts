/**
 * Has garbage collected while a gesture lasts. An engine counts its own heap, and neither what it holds outside of it for messages, text
 * and events: seconds of dragging left 50 MiB in the page before they were collected. A buffer counts as large as it is, and takes no memory
 * until it is written to, so one that is dropped at once makes the engine look.
 */

/** Things left between two collections: a second or two of a gesture. */
const AT_ONCE = 32;
const BYTES = 64 << 20;

let left = 0;

/** To be called where a picture was replaced, or a card. */
export function leaveGarbage(): void {
  if (++left % AT_ONCE !== 0) return;
  try {
    // Its length is looked at, or a bundler would leave it out.
    if (new ArrayBuffer(BYTES).byteLength < BYTES) left = 0;
  } catch {
    // So little address space is left that the engine collects of its own accord.
  }
}
