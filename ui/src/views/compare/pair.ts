/** Which two files are compared, and what the program says of them. */

import {computed} from '@preact/signals';
import type {Curve, Curves, StackTree} from '../../data/curves';
import {curveToShow} from '../../data/curves';
import type {Diff} from '../../data/generated/diff';
import type {FileState} from '../../data/source';
import {ALIGNMENTS, type Alignment, alignmentOf, canAlign} from '../../model/alignment';
import {dataSource, files} from '../../state/session';
import * as store from '../../state/store';

/** Parts of each curve. */
const PARTS = 2048;

/** Two files, and a device of each. */
export interface Pair {
  /** First the one that is open, then the one beside it. */
  readonly files: readonly [FileState, FileState];
  readonly devices: readonly [Curves, Curves];
  readonly curves: readonly [Curve, Curve];
}

/** The file beside the open one: the chosen one, or else the next. */
export function otherFile(all: readonly FileState[], open: number, chosen: string | undefined): FileState | undefined {
  const others = all.filter(({id, state}) => id !== open && state === 'ready');
  return others.find(({id}) => String(id) === chosen) ?? others.find(({id}) => id > open) ?? others[0];
}

/** The list is asked for every few seconds, and mostly the same. */
const names = computed(() => JSON.stringify(files.value.map(({id, name, state}) => [id, name, state])));
const chosen = computed(() => [store.options.value['compare.with'], store.options.value['compare.device']].join(' '));

/** Reads both. `null` where there is no other file. */
export function askPair(device: number): Promise<Pair> | null {
  void names.value;
  void chosen.value;
  const all = files.peek();
  const options = store.options.peek();
  const first = all.find(({id}) => id === store.file.peek());
  const second = otherFile(all, store.file.peek(), options['compare.with']);
  if (!first || !second) return null;
  const asked = /^\d+$/.test(options['compare.device'] ?? '') ? Number(options['compare.device']) : device;
  return readPair(first, second, device, asked);
}

async function readPair(first: FileState, second: FileState, device: number, asked: number): Promise<Pair> {
  const source = dataSource();
  const devices = await Promise.all([source.curves(first.id, PARTS), source.curves(second.id, PARTS)]);
  const curves = [curveToShow(devices[0], device), curveToShow(devices[1], asked)];
  if (!curves[0] || !curves[1]) throw new Error(`\`${(curves[0] ? second : first).name}\` has no device`);
  return {files: [first, second], devices, curves: [curves[0], curves[1]]};
}

/** What `highwater diff` says of them. */
export function askDiff(pair: Pair): Promise<Diff> {
  return dataSource().diff(pair.files[0].id, pair.files[1].id, devicesOf(pair));
}

export function askStacks(pair: Pair): Promise<StackTree> {
  return dataSource().diffStacks(pair.files[0].id, pair.files[1].id, devicesOf(pair));
}

function devicesOf({curves}: Pair): [number, number] {
  return [curves[0].device, curves[1].device];
}

/** The alignment that is chosen, where both can be aligned so, or else the one that fits them. */
export function chosenAlignment({curves}: Pair): Alignment {
  const chosen = ALIGNMENTS.find(alignment => alignment === store.options.value['compare.align']);
  return chosen && canAlign(curves, chosen) ? chosen : alignmentOf(curves);
}
