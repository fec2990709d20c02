/** The state in the page's address, after `#`: what differs from the beginning, in words that can be read. */

import {batch, effect} from '@preact/signals';
import {placeOfPage} from '../data/source';
import {GROUPINGS} from '../model/groups';
import * as store from './store';

/** The state as the text after `#`. */
export function addressOfState(): string {
  const words = new URLSearchParams();
  const put = (name: string, value: string | number | null) => {
    if (value !== null && value !== '') words.set(name, String(value));
  };
  if (store.view.value !== 'timeline') put('view', store.view.value);
  if (store.file.value !== 0) put('file', store.file.value);
  put('device', store.device.value);
  if (store.axis.value !== 'entry') put('axis', store.axis.value);
  const x = store.xRange.value;
  if (x) put('x', `${short(x.from)}..${short(x.to)}`);
  const y = store.yRange.value;
  if (y) put('y', `${short(y.low)}..${short(y.high)}`);
  const range = store.selection.value;
  if (range) put('range', `${range.from}..${range.to}`);
  put('row', store.pinned.value);
  put('at', store.cursor.value);
  put('q', store.query.value);
  if (store.colourBy.value !== 'site') put('colour', store.colourBy.value);
  if (store.theme.value !== 'system') put('theme', store.theme.value);
  for (const [name, value] of Object.entries(store.options.value)) put(name, value);
  return words.toString();
}

/** Views of several files. */
const NEEDS_FILES: readonly store.ViewId[] = ['compare', 'ranks'];

/** The same for a page that holds the file alone. */
export function placeForPage(): string {
  const words = new URLSearchParams(addressOfState());
  words.delete('file');
  // Of other files it knows nothing.
  if (NEEDS_FILES.some(view => view === words.get('view'))) words.delete('view');
  return words.toString();
}

/** Sets the state from the text after `#`; what is malformed counts as not said. */
export function stateOfAddress(hash: string): void {
  const words = new URLSearchParams(hash.replace(/^#/, ''));
  const take = (name: string) => {
    const value = words.get(name);
    words.delete(name);
    return value;
  };
  batch(() => {
    store.view.value =
      oneOf(
        take('view'),
        store.VIEWS.map(({id}) => id),
      ) ?? 'timeline';
    store.file.value = whole(take('file')) ?? 0;
    store.device.value = whole(take('device'));
    store.axis.value = oneOf(take('axis'), ['entry', 'time'] as const) ?? 'entry';
    const x = range(take('x'));
    store.xRange.value = x && {from: x[0], to: x[1]};
    const y = range(take('y'));
    store.yRange.value = y && {low: y[0], high: y[1]};
    const selected = range(take('range'));
    const isWhole = selected?.every(Number.isInteger) && selected[0] >= 0;
    store.selection.value = selected && isWhole ? {from: selected[0], to: selected[1]} : null;
    store.pinned.value = whole(take('row'));
    store.cursor.value = whole(take('at'));
    store.query.value = take('q') ?? '';
    store.colourBy.value = oneOf(take('colour'), GROUPINGS) ?? 'site';
    store.theme.value = oneOf(take('theme'), ['system', 'light', 'dark'] as const) ?? 'system';
    store.options.value = Object.fromEntries(words);
  });
}

/** Gestures that follow each other within this are one step for Back. */
const GESTURE_MS = 1500;

/** Tells which changes of the state the browser's Back goes back from. */
export class Steps {
  private place = placeOfState();
  private stretch = stretchOfState();
  private zoomedAt = Number.NEGATIVE_INFINITY;

  /** How the present state is written into the history; `now` is in milliseconds. */
  next(now: number): 'pushState' | 'replaceState' {
    const isElsewhere = placeOfState() !== this.place;
    const isZoomed = stretchOfState() !== this.stretch;
    const isGoingOn = now - this.zoomedAt < GESTURE_MS;
    this.take();
    if (isElsewhere) return 'pushState';
    if (!isZoomed) return 'replaceState';
    this.zoomedAt = now;
    return isGoingOn ? 'replaceState' : 'pushState';
  }

  /** The state was set from the history: what comes next is a step of its own. */
  take(): void {
    this.place = placeOfState();
    this.stretch = stretchOfState();
    this.zoomedAt = Number.NEGATIVE_INFINITY;
  }
}

/** Keeps the address and the state the same, from now on. Gives what ends it. */
export function followAddress(): () => void {
  // A page that was shared opens on the place it was made at, unless a link says another.
  stateOfAddress(location.hash || placeOfPage());
  const steps = new Steps();
  let timer: ReturnType<typeof setTimeout> | undefined;
  const write = () => {
    const hash = `#${addressOfState()}`;
    if (hash === location.hash || (hash === '#' && location.hash === '')) return;
    history[steps.next(performance.now())](null, '', hash);
  };
  const stop = effect(() => {
    addressOfState();
    clearTimeout(timer);
    // Browsers refuse more than about a hundred changes in half a minute.
    timer = setTimeout(write, 400);
  });
  const onPop = () => {
    stateOfAddress(location.hash);
    steps.take();
  };
  addEventListener('popstate', onPop);
  return () => {
    stop();
    clearTimeout(timer);
    removeEventListener('popstate', onPop);
  };
}

/** What a person calls another place. */
function placeOfState(): string {
  return [store.view.value, store.file.value, store.device.value, store.pinned.value].join(' ');
}

/** What is visible of a place. */
function stretchOfState(): string {
  return JSON.stringify([store.axis.value, store.xRange.value, store.yRange.value, store.options.value['stacks.zoom']]);
}

function short(value: number): string {
  return Number.isInteger(value) ? String(value) : String(Number(value.toPrecision(12)));
}

function whole(text: string | null): number | null {
  return text !== null && /^\d{1,15}$/.test(text) ? Number(text) : null;
}

function range(text: string | null): [number, number] | null {
  const parts = (text ?? '').split('..').map(Number);
  const isRange = parts.length === 2 && parts.every(Number.isFinite) && parts[0] < parts[1];
  return isRange ? [parts[0], parts[1]] : null;
}

function oneOf<T extends string>(text: string | null, allowed: readonly T[]): T | null {
  return allowed.find(one => one === text) ?? null;
}
