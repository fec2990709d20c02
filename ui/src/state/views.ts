/** Which views there are for the files that are open. */

import {computed} from '@preact/signals';
import {dataSource, files, opened} from './session';
import * as store from './store';

/** A view, and its key. */
export type KeyedView = (typeof store.VIEWS)[number] & {readonly key: string};

/** Views of segments: a profile of `torch.profiler` has none. */
const NEEDS_RESERVED: readonly store.ViewId[] = ['segments', 'what-if'];

/** How many files a view needs. */
const NEEDS_FILES: Partial<Record<store.ViewId, number>> = {compare: 2, ranks: 3};

/** The views that have tabs; a view keeps its key whether or not the ones before it are there. */
export const views = computed<readonly KeyedView[]>(() => {
  const keyed = store.VIEWS.map((view, i) => ({...view, key: String(i + 1)}));
  return keyed.filter(({id}) => id === store.view.value || isThere(id));
});

function isThere(id: store.ViewId): boolean {
  const filesNeeded = NEEDS_FILES[id];
  if (filesNeeded !== undefined) return dataSource().isServed && files.value.length >= filesNeeded;
  if (id === 'what-if' && opened.value?.manifest.what_if === undefined) return false;
  const hasReserved = (opened.value?.reservedMaxBytes ?? 1) > 0;
  // Memory outside PyTorch has addresses, too.
  if (id === 'state') return hasReserved || opened.value?.device.outside !== undefined;
  return hasReserved || !NEEDS_RESERVED.includes(id);
}
