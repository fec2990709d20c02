/** Groups of a session's lifetimes, and the colours that they have in every view. */

import {type Abgr, faded, type RowColours} from '../draw/paint';
import {categoryColour, colourInOrder, colourOfHash, pixelOf, sizeColour, slotsOfLargest} from '../draw/palette';
import {categoryWords} from '../model/categories';
import {shortFrame} from '../model/frames';
import {
  type Group,
  type Grouping,
  type Groups,
  type GroupTotal,
  groupsOfRows,
  identity,
  sizeClass,
  totalsByGroup,
} from '../model/groups';
import {hashOf} from '../model/hash';
import {Spare} from '../model/spare';
import type {Stacks} from '../model/stacks';
import {binary} from '../model/units';
import type {Session} from './session';

/** Groups with their colours. */
export interface Colouring {
  readonly groups: Groups;
  /** By group. */
  readonly colours: Uint32Array;
  /** By key: what the painter wants. */
  readonly rows: RowColours;
  /** What a group is known by in every file. */
  keyOf(group: Group): string;
}

/** One line of a legend. */
export interface LegendLine extends GroupTotal {
  readonly colour: Abgr;
  /** What the group is known by in every file. */
  readonly key: string;
}

/** Which groups stand out, by their keys. A key that no group has says nothing: it is of another file, or another grouping. */
export interface Emphasis {
  /** All others fade. */
  readonly only: string | null;
  /** These fade. */
  readonly hidden: readonly string[];
}

/** Colours in which only what is to stand out has its own. */
export function emphasised(
  {groups, colours, rows, keyOf}: Colouring,
  emphasis: Emphasis,
  background: Abgr,
): RowColours {
  const {only, hidden} = emphasis;
  if (only === null && hidden.length === 0) return rows;
  const faint = new Set(hidden);
  const keys = Array.from({length: groups.count}, (_, group) => keyOf(group));
  const isOnly = only !== null && keys.includes(only);
  const shown = colours.map((colour, group) =>
    (isOnly && keys[group] !== only) || faint.has(keys[group]) ? faded(colour, background) : colour,
  );
  return {key: rows.key, lut: Uint32Array.from(groups.ofKey, group => shown[group])};
}

/** The keys of rows whose groups are hidden, one byte each; `undefined` where none is. */
export function hiddenKeys({groups, keyOf}: Colouring, {hidden}: Emphasis): Uint8Array | undefined {
  if (hidden.length === 0) return undefined;
  const faint = new Set(hidden);
  const isHidden = Uint8Array.from({length: groups.count}, (_, group) => (faint.has(keyOf(group)) ? 1 : 0));
  return isHidden.includes(1) ? Uint8Array.from(groups.ofKey, group => isHidden[group]) : undefined;
}

/** What the colours of a picture stand for. */
export interface Legend {
  readonly lines: LegendLine[];
  /** How many more groups there are, all without anything active. */
  readonly leftOut: number;
}

/** The groups of a session by one of the groupings; by call site where the file lacks what is asked for. */
export function groupsBy(session: Session, by: Grouping): Promise<Groups> {
  return session.once(`groups-${by}`, async () => {
    const {device} = session;
    switch (by) {
      case 'category':
        if (!session.has('category')) return groupsBy(session, 'site');
        return listed(by, session, 'category', (device.categories ?? []).map(categoryWords));
      case 'stream':
        return listed(
          by,
          session,
          'stream',
          device.streams.map(handle => `stream ${handle}`),
        );
      case 'pool':
        return listed(
          by,
          session,
          'pool',
          device.pools.map(({label}) => label),
        );
      case 'size':
        return bySize(session);
      case 'stack':
      case 'site':
        return byStack(session, by);
    }
  });
}

/** The colours of a grouping. Those of categories, call sites and stacks are the same in every file. */
export function colouring(session: Session, by: Grouping): Promise<Colouring> {
  return session.once(`colours-${by}`, async () => {
    const groups = await groupsBy(session, by);
    const colourOf = await colourerOf(session, groups);
    // Many stacks begin at one call site, so their labels do not tell them apart.
    const hashes = by === 'stack' ? (await session.stacks()).stackHashes() : undefined;
    const keyOf = (group: Group) => (hashes ? `stack ${hashes[group].toString(16)}` : groups.label(group));
    const colours = Uint32Array.from({length: groups.count}, (_, group) => colourOf(group));
    const lut = Uint32Array.from(groups.ofKey, group => colours[group]);
    return {groups, colours, rows: {key: groups.key, lut}, keyOf};
  });
}

async function colourerOf(session: Session, groups: Groups): Promise<(group: Group) => Abgr> {
  switch (groups.by) {
    case 'category':
      return group => pixelOf(categoryColour(session.device.categories?.[group] ?? 'unknown'));
    case 'size':
      return group => sizeColour(group, groups.count);
    case 'stream':
    case 'pool':
      return group => colourInOrder(group, groups.label(group));
    case 'site':
      return byHash(session, groups, group => hashOf(groups.label(group)));
    case 'stack': {
      const hashes = (await session.stacks()).stackHashes();
      return byHash(session, groups, group => hashes[group]);
    }
  }
}

/** Groups whose colours are told apart at a glance: as many as a legend has lines. */
const LARGEST = 14;

/** Colours by numbers that are the same in every file. */
function byHash(session: Session, groups: Groups, hash: (group: Group) => number): (group: Group) => Abgr {
  const {size, unitBytes} = session.lifetimes;
  const atPeak = session.index.liveAt(session.index.peak.entry);
  const largest = totalsByGroup(groups, atPeak, row => size[row] * unitBytes).slice(0, LARGEST);
  const slots = slotsOfLargest(largest.map(({group}) => hash(group)));
  return group => colourOfHash(hash(group), slots.get(hash(group)));
}

const SPARE_ROWS = new Spare();

/** More groups without anything active than a legend can show: a file can have a million stacks. */
const MAX_IDLE_GROUPS = 1000;

/**
 * All groups of the picture with their colours: those of what is active after an entry first, then those that have nothing there,
 * the ones with the most bytes over the recording before the others.
 */
export async function legend(session: Session, by: Grouping, entry: number): Promise<Legend> {
  const {groups, colours, keyOf} = await colouring(session, by);
  const {size, unitBytes} = session.lifetimes;
  const bytesOf = (row: number) => size[row] * unitBytes;
  const live = session.index.liveAt(entry, SPARE_ROWS);
  const active = totalsByGroup(groups, live, bytesOf);
  SPARE_ROWS.give(live);
  const isActive = new Set(active.map(({group}) => group));
  const all = await session.once(`groups-of-rows-${by}`, async () => groupsOfRows(groups, bytesOf));
  const idle = all.filter(group => !isActive.has(group));
  const shown = idle.slice(0, MAX_IDLE_GROUPS);
  const totals = [...active, ...shown.map(group => ({group, label: groups.label(group), bytes: 0, count: 0}))];
  if (by === 'stack') tellApart(totals, await session.stacks());
  return {
    lines: totals.map(total => ({...total, colour: colours[total.group], key: keyOf(total.group)})),
    leftOut: idle.length - shown.length,
  };
}

/** Stacks that are told apart in a legend; those below them have the words of their call site. */
const TOLD_APART = 100;

/** Many stacks have one call site: the first ones get the words of a frame that differs, further in or further out. */
function tellApart(totals: GroupTotal[], stacks: Stacks): void {
  const taken = new Map<string, number>();
  for (const total of totals.slice(0, TOLD_APART)) {
    const label = withFrame(stacks, total.group, total.label);
    const times = (taken.get(label) ?? 0) + 1;
    taken.set(label, times);
    total.label = times === 1 ? label : `${label} (${times})`;
  }
}

/** `adam.py:178 _init_group, from capture.py:362 step`: the innermost frame, then the call site, or the next caller if it is that. */
export function withFrame(stacks: Pick<Stacks, 'framesOf'>, stack: number, label: string): string {
  const python = stacks.framesOf(stack).filter(({file}) => file.endsWith('.py'));
  const words = python.map(shortFrame);
  const [innermost] = words;
  if (innermost === undefined) return label;
  const outer = innermost === label ? words.find(one => one !== label) : label;
  return outer === undefined ? label : `${innermost}, from ${outer}`;
}

async function listed(by: Grouping, session: Session, column: string, labels: string[]): Promise<Groups> {
  const key = await session.column(column);
  return {by, key, ofKey: identity(labels.length), count: labels.length, label: group => labels[group]};
}

async function byStack(session: Session, by: 'stack' | 'site'): Promise<Groups> {
  const stacks = await session.stacks();
  const label = (group: number) => stacks.describeSite(by === 'site' ? group : stacks.sites[group]);
  if (by === 'stack') return {by, key: session.stack, ofKey: identity(stacks.count), count: stacks.count, label};
  return {by, key: session.stack, ofKey: stacks.sites, count: stacks.siteCount, label};
}

function bySize(session: Session): Groups {
  const {size, unitBytes} = session.lifetimes;
  const key = Uint8Array.from(size, units => sizeClass(units * unitBytes));
  const count = key.reduce((most, group) => Math.max(most, group + 1), 0);
  const label = (group: number) => (group === 0 ? 'up to 512 B' : `up to ${binary(512 * 2 ** group)}`);
  return {by: 'size', key, ofKey: identity(count), count, label};
}
