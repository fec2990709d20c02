/**
 * What the page shows: every choice that a person makes, as signals. All of it is in the address (`address.ts`), so that
 * a link shows a colleague the same.
 */

import {computed, signal} from '@preact/signals';
import type {Shade} from '../draw/palette';
import type {AxisKind, AxisRange} from '../model/axis';
import type {Grouping} from '../model/groups';

/** The views, in the order of their keys 1 to 6. */
export const VIEWS = [
  {id: 'timeline', title: 'Timeline', hint: 'Active memory over time, one band per allocation'},
  {id: 'state', title: 'State', hint: 'Segments and their blocks at one entry'},
  {id: 'segments', title: 'Segments', hint: 'Reserved memory over time, and how it is used'},
  {id: 'stacks', title: 'Stacks', hint: 'Flame graph and table of stacks'},
  {id: 'summary', title: 'Summary', hint: 'The report'},
  {id: 'what-if', title: 'What if', hint: 'Other settings, less memory'},
  {id: 'compare', title: 'Compare', hint: 'Two recordings on one axis, and what changed'},
  {id: 'ranks', title: 'Ranks', hint: 'All recordings on one scale'},
] as const;

/** One of `VIEWS`. */
export type ViewId = (typeof VIEWS)[number]['id'];

/** `system` follows the system's choice. */
export type Theme = 'system' | Shade;

/** The file that is looked at, by its id. */
export const file = signal(0);
/** Its device, by CUDA ordinal; `null` for the one that the report leads with. */
export const device = signal<number | null>(null);
export const view = signal<ViewId>('timeline');
export const axis = signal<AxisKind>('entry');
/** The visible stretch of the x axis, shared by all views over time; `null` for all of it. */
export const xRange = signal<AxisRange | null>(null);
/** Bytes at the lower and the upper edge of the timeline; `null` to fit the peak. */
export const yRange = signal<{low: number; high: number} | null>(null);
/** The selected stretch, in entries: `from` up to and without `to`. */
export const selection = signal<{from: number; to: number} | null>(null);
/** The pinned lifetime. */
export const pinned = signal<number | null>(null);
/** The entry after which the state is shown; `null` for the peak. */
export const cursor = signal<number | null>(null);
export const query = signal('');
export const colourBy = signal<Grouping>('site');
export const theme = signal<Theme>('system');
/** What a view remembers beside all this, by a name that begins with the view's: see `viewOption`. */
export const options = signal<Readonly<Record<string, string>>>({});

const prefersDark = globalThis.matchMedia?.('(prefers-color-scheme: dark)');
const systemShade = signal<Shade>(prefersDark?.matches ? 'dark' : 'light');
prefersDark?.addEventListener('change', event => {
  systemShade.value = event.matches ? 'dark' : 'light';
});

/** Light or dark, as it is drawn. */
export const shade = computed<Shade>(() => (theme.value === 'system' ? systemShade.value : theme.value));

/** What a view remembers under a name; a value that is no longer allowed counts as the first. */
export function viewOption<const T extends string>(name: string, allowed: readonly T[]): T {
  const value = options.value[name];
  return allowed.find(one => one === value) ?? allowed[0];
}

/** Sets what a view remembers. */
export function setViewOption(name: string, value: string): void {
  options.value = {...options.value, [name]: value};
}
