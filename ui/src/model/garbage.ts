/**
 * Has garbage collected while a gesture lasts.
 *
 * Pictures, their numbers and their pixels make none: they are handed over, and used again (`spare.ts`). The rest is the browser's own and
 * cannot be used again: the envelope of each message, the events of the pointer, the text of the panel and its nodes, the handles of
 * bitmaps. An engine counts the size of its own heap and hardly that of these, so seconds of dragging left 50 MiB of them. A page can
 * neither ask for a collection nor see how much there is to collect. It can allocate a buffer, which counts as large as it is, and takes no
 * memory until it is written to: one that is dropped at once makes the engine look. With a million entries, after half a minute of zooming,
 * pointing and scrubbing, that is the difference between 286 MiB and 243; an engine that does not look loses nothing but a little address
 * space.
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
