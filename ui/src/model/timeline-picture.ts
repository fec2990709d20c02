/**
 * The picture of the timeline: each pixel column is the exact stack after the entry, of those that the column covers,
 * with the largest total.
 *
 * So nothing is dropped by a rule about counts, and the peak is in the picture at any zoom: `spec/viewer.md` 2.1.
 */

import type {Column} from '../data/section';
import type {Axis} from './axis';
import {BandList, ID_IDLE} from './column-ids';
import {awaitsFree, type Pending} from './pending';
import {drawStacked, type SpareIds, type Stacked, type StackedIds, type StackedWindow} from './stacked-picture';
import type {TimelineIndex} from './timeline-index';

/** What else a picture depends on. */
export interface TimelineOptions {
  /** Rows that await their free. */
  readonly pending?: Pending | undefined;
  /** Rows that are left out, by their keys: what is above them moves down. The totals stay those of all. */
  readonly hidden?: {readonly key: Column; readonly isHidden: Uint8Array} | undefined;
  readonly spare?: SpareIds;
}

/** Draws the ids, rows of the lifetimes. */
export function drawTimeline(
  index: TimelineIndex,
  axis: Axis,
  window: StackedWindow,
  {pending, hidden, spare}: TimelineOptions = {},
): StackedIds {
  const {unitBytes, entries} = index.lifetimes;
  const bands = new BandList();
  const stacked: Stacked = {
    highest: (from, to) => index.highestIn(from, to),
    lowest: (from, to) => index.lowestIn(from, to).total,
    bandsAfter(entry) {
      index.bandsAfter(entry, bands);
      if (hidden) bands.keep(id => hidden.isHidden[hidden.key[id - 1]] === 0);
      const {ids, count} = bands;
      if (pending) for (let i = 0; i < count; i++) if (awaitsFree(pending, ids[i] - 1, entry)) ids[i] |= ID_IDLE;
      return bands;
    },
  };
  return drawStacked(axis, entries, unitBytes, window, stacked, spare);
}
