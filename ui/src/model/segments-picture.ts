/** The picture of reserved memory: one band a segment, the part in active blocks below, the free part above. */

import type {Column} from '../data/section';
import type {Axis} from './axis';
import {BandList, ID_IDLE} from './column-ids';
import {type Pieces, segmentsAfter} from './pieces';
import {drawStacked, type SpareIds, type Stacked, type StackedIds, type StackedWindow} from './stacked-picture';
import type {TimelineIndex} from './timeline-index';

/** Draws the ids, rows of the segments. */
export function drawSegments(
  pieces: Pieces,
  lifetimes: TimelineIndex,
  segmentOf: Column,
  axis: Axis,
  window: StackedWindow,
  spare?: SpareIds,
): StackedIds {
  const {entries, unitBytes} = lifetimes.lifetimes;
  const bands = new BandList();
  const stacked: Stacked = {
    highest: (from, to) => pieces.index.highestIn(from, to),
    lowest: (from, to) => pieces.index.lowestIn(from, to).total,
    bandsAfter(entry) {
      bands.clear();
      for (const {segment, mapped, used} of segmentsAfter(pieces, lifetimes, segmentOf, entry)) {
        const busy = Math.min(used, mapped);
        bands.push(segment + 1, busy);
        bands.push((segment + 1) | ID_IDLE, mapped - busy);
      }
      return bands;
    },
  };
  return drawStacked(axis, entries, unitBytes, window, stacked, spare);
}
