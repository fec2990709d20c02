/** Measuring by keys: a mark where a stretch begins, and a second press where it ends. */

import {batch, signal} from '@preact/signals';
import * as store from '../../state/store';

/** The entry at which a stretch begins that has no end yet. */
export const mark = signal<number | null>(null);

/** Sets the mark, or measures the stretch between it and an entry, both of them in it. */
export function markAt(entry: number): void {
  const began = mark.value;
  if (began === null) {
    mark.value = entry;
    return;
  }
  batch(() => {
    mark.value = null;
    store.selection.value = {from: Math.min(began, entry), to: Math.max(began, entry) + 1};
  });
}
