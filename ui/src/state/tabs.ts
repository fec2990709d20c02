/** Which files have tabs: those that the program has, without those that were closed on this page. */

import {batch, computed} from '@preact/signals';
import type {FileState} from '../data/source';
import {files, forgetPlace} from './session';
import * as store from './store';

const CLOSED = 'closed';

const closed = computed<ReadonlySet<number>>(
  () => new Set((store.options.value[CLOSED] ?? '').split(',').filter(Boolean).map(Number)),
);

/** The files that have tabs; the one that is looked at always has. */
export const tabs = computed<FileState[]>(() =>
  files.value.filter(({id}) => id === store.file.value || !closed.value.has(id)),
);

/** Looks at a file. */
export function look(id: number): void {
  if (id === store.file.value) return;
  batch(() => {
    forgetPlace();
    store.file.value = id;
  });
}

/** Closes a tab; of the one that is looked at, the next one is then, or the one before. The last one stays. */
export function closeTab(id: number): void {
  const open = tabs.value;
  const at = open.findIndex(file => file.id === id);
  const next = open[at + 1] ?? open[at - 1];
  if (!next) return;
  batch(() => {
    if (id === store.file.value) look(next.id);
    store.setViewOption(CLOSED, [...closed.value, id].join(','));
  });
}
