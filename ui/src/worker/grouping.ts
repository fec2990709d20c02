/** Groups of a session's lifetimes, and the colours that they have in every view. */

import type {Abgr, RowColours} from '../draw/paint';
import {groupColours} from '../draw/palette';
import {type Grouping, type Groups, type GroupTotal, identity, sizeClass, totalsByGroup} from '../model/groups';
import {binary} from '../model/units';
import type {Session} from './session';

/** Groups with their colours. */
export interface Colouring {
  readonly groups: Groups;
  /** By group. */
  readonly colours: Uint32Array;
  /** By key: what the painter wants. */
  readonly rows: RowColours;
}

/** One line of a legend. */
export interface LegendLine extends GroupTotal {
  readonly colour: Abgr;
}

/** The groups of a session by one of the groupings; by call site where the file lacks what is asked for. */
export function groupsBy(session: Session, by: Grouping): Promise<Groups> {
  return session.once(`groups-${by}`, async () => {
    const {device} = session;
    switch (by) {
      case 'category':
        if (!session.has('category')) return groupsBy(session, 'site');
        return listed(by, session, 'category', device.categories ?? []);
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

/** The colours of a grouping: the leading ones for the groups that are largest at the peak. */
export function colouring(session: Session, by: Grouping): Promise<Colouring> {
  return session.once(`colours-${by}`, async () => {
    const groups = await groupsBy(session, by);
    const {size, unitBytes} = session.lifetimes;
    const live = session.index.liveAt(session.index.peak.entry);
    const largest = totalsByGroup(groups, live, row => size[row] * unitBytes).map(({group}) => group);
    const order = by === 'size' ? identity(groups.count) : largest;
    const colours = groupColours(groups.count, Array.from(order), group => groups.label(group));
    const lut = Uint32Array.from(groups.ofKey, group => colours[group]);
    return {groups, colours, rows: {key: groups.key, lut}};
  });
}

/** The groups of what is active after an entry, with their colours. */
export async function legend(session: Session, by: Grouping, entry: number): Promise<LegendLine[]> {
  const {groups, colours} = await colouring(session, by);
  const {size, unitBytes} = session.lifetimes;
  const totals = totalsByGroup(groups, session.index.liveAt(entry), row => size[row] * unitBytes);
  return totals.map(total => ({...total, colour: colours[total.group]}));
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
