/** Memory outside PyTorch in the pictures over time: whether it is shown, and up to where. */

import {computed} from '@preact/signals';
import {binary} from '../model/units';
import {highestShown, type Opened} from './session';
import * as store from './store';

/** Ways to show it; the first one where nothing is chosen. */
export const OUTSIDE_WAYS = ['shown', 'capacity', 'hidden'] as const;

/** One of `OUTSIDE_WAYS`. */
export type OutsideWay = (typeof OUTSIDE_WAYS)[number];

export const outsideShown = computed<OutsideWay>(() => store.viewOption('outside', OUTSIDE_WAYS));

/** The GPU's memory as a level line. */
export function capacityOf({device}: Opened): {bytes: number; words: string} | undefined {
  const bytes = device.outside?.capacity_bytes;
  if (!bytes || outsideShown.value === 'hidden') return undefined;
  return {bytes, words: `GPU ${binary(bytes)}`};
}

/** The highest that a picture over time shows, in bytes. */
export function highestWithOutside(opened: Opened): number {
  const inside = highestShown(opened);
  if (!opened.device.outside || outsideShown.value === 'hidden') return inside;
  const highest = Math.max(inside, opened.cardMaxBytes);
  const capacity = capacityOf(opened)?.bytes ?? 0;
  // Far above everything, it would press the picture flat: unless that is asked for.
  return outsideShown.value === 'capacity' || capacity <= highest * 1.25 ? Math.max(highest, capacity) : highest;
}
