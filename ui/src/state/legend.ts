/** Which groups of the legend stand out: the one that was isolated or is under the pointer; and those that were hidden. */

import {computed, signal} from '@preact/signals';
import type {Emphasis} from '../worker/grouping';
import * as store from './store';

/** The group under the pointer, by its key. */
export const hovered = signal<string | null>(null);

const ONLY = 'legend.only';
const HIDDEN = 'legend.hidden';
/** Between keys: no label has it. */
const SEPARATOR = '\n';

/** The group that was isolated. */
export const only = computed<string | null>(() => store.options.value[ONLY] || null);

/** The groups that were hidden. */
export const hidden = computed<readonly string[]>(() =>
  (store.options.value[HIDDEN] ?? '').split(SEPARATOR).filter(key => key !== ''),
);

/** What pictures show of it. */
export const emphasis = computed<Emphasis>(() => ({only: hovered.value ?? only.value, hidden: hidden.value}));

/** Isolates a group, or brings the others back. */
export function toggleOnly(key: string): void {
  store.setViewOption(ONLY, only.value === key ? '' : key);
}

/** Hides a group, or brings it back. */
export function toggleHidden(key: string): void {
  const rest = hidden.value.filter(one => one !== key);
  const next = rest.length < hidden.value.length ? rest : [...rest, key];
  store.setViewOption(HIDDEN, next.join(SEPARATOR));
}

/** Brings everything back. */
export function showAllGroups(): void {
  hovered.value = null;
  store.options.value = {...store.options.value, [ONLY]: '', [HIDDEN]: ''};
}

/** A pointer that only passes over the legend changes nothing, in milliseconds. */
const REST_MS = 120;
let timer: ReturnType<typeof setTimeout> | undefined;

/** The pointer is over a group, or over none. */
export function hover(key: string | null): void {
  clearTimeout(timer);
  timer = setTimeout(() => {
    hovered.value = key;
  }, REST_MS);
}
