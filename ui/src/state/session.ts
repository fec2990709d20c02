/** The files, the one that is open, and the worker that holds it. */

import {batch, computed, effect, signal, untracked} from '@preact/signals';
import {
  type ColumnSection,
  type DeviceManifest,
  deviceToOpen,
  hasPayload,
  type Manifest,
  VIEW_VERSION,
} from '../data/manifest';
import {type Remote, remote} from '../data/rpc';
import {type FileState, Problem, type SectionAddress, type Source, sourceOfPage} from '../data/source';
import {type Axis, type AxisKind, entryAxis, moved, timeAxis, translated, within} from '../model/axis';
import {Newest} from '../model/newest';
import {regexesOf} from '../model/search-query';
import type {WorkerMethods} from '../worker/main';
import type {Found} from '../worker/search';
import {matchingWithin} from './matching';
import * as store from './store';
import {workerAddress} from './worker-address';

/** A device that the worker has opened. */
export interface Opened {
  readonly manifest: Manifest;
  readonly device: DeviceManifest;
  /** Counts up with each device that is opened: what was made for an older one is stale. */
  readonly generation: number;
  /** The entry after which the measure is at its peak; of a device without blocks of PyTorch's, all that is known of the GPU. */
  readonly peakEntry: number;
  readonly peakBytes: number;
  readonly reservedMaxBytes: number;
  /** The most that the process has of the GPU after an entry, memory outside PyTorch included; 0 where the driver was not recorded. */
  readonly cardMaxBytes: number;
  /** Entries, at least 1. */
  readonly entries: number;
}

/** The highest that a picture of a device shows, in bytes. A ceiling far above everything would press the picture flat. */
export function highestShown({device, peakBytes, reservedMaxBytes}: Opened): number {
  const highest = Math.max(peakBytes, reservedMaxBytes, 1);
  const ceiling = device.ceiling?.bytes ?? 0;
  return ceiling <= highest * 1.25 ? Math.max(highest, ceiling) : highest;
}

export const files = signal<FileState[]>([]);
export const opened = signal<Opened | null>(null);
/** The device of which a picture was shown: the worker makes that first, then what is beside it. */
export const pictured = signal<Opened | null>(null);
const WITH_PICTURE: readonly store.ViewId[] = ['timeline', 'state', 'segments'];
/** How long to wait for a picture, in milliseconds. */
const PICTURED_MS = 1000;
/** What keeps the page from showing the file. */
export const problem = signal<Problem | null>(null);
/** What the search found; `undefined` without a search. */
export const found = signal<Found | undefined>(undefined);
export const searchProblem = signal<Problem | null>(null);
/** Counts up when the matches of the search changed. */
export const searchGeneration = signal(0);

let source: Source;
let worker: Remote<WorkerMethods>;

/** The worker. */
export function engine(): Remote<WorkerMethods> {
  return worker;
}

/** Where the data come from. */
export function dataSource(): Source {
  return source;
}

/** The entry whose state is shown: the cursor, or the peak. */
export const shownEntry = computed(() => {
  const device = opened.value;
  if (!device) return 0;
  return Math.min(store.cursor.value ?? device.peakEntry, device.entries - 1);
});

/** Where an entry lies on the axis that is shown: set by the view that shows it. */
export const shownAxis = signal<Axis | null>(null);

const entryAxes = new WeakMap<Opened, Axis>();
const timeAxes = new WeakMap<Opened, Promise<Axis>>();

/** An axis of a device that needs no numbers: of entries, also where times are wanted and are not known. */
export function axisAtOnce(device: Opened, kind: AxisKind): Axis | undefined {
  if (kind === 'time' && device.device.time_us) return undefined;
  const axis = entryAxes.get(device) ?? entryAxis(device.entries);
  entryAxes.set(device, axis);
  return axis;
}

/** An axis of a device; of entries where their times are not known. */
export function axisOf(device: Opened, kind: AxisKind): Promise<Axis> {
  const atOnce = axisAtOnce(device, kind);
  if (atOnce) return Promise.resolve(atOnce);
  const axis = timeAxes.get(device) ?? worker.times().then(timeAxis);
  timeAxes.set(device, axis);
  axis.catch(() => timeAxes.delete(device));
  return axis;
}

/** Changes the x axis; the same entries stay visible. */
export async function switchAxis(device: Opened): Promise<void> {
  if (!device.device.time_us) return;
  const kind = store.axis.value === 'entry' ? 'time' : 'entry';
  const [old, next] = await Promise.all([axisOf(device, store.axis.value), axisOf(device, kind)]);
  if (opened.value !== device || store.axis.value === kind) return;
  const x = store.xRange.value;
  batch(() => {
    store.xRange.value = x && translated(within(x, old.range), old, next);
    store.axis.value = kind;
  });
}

/** Puts the cursor after an entry, and moves the visible stretch where it would be out of sight. */
export function reveal(entry: number): void {
  store.cursor.value = entry;
  const x = store.xRange.value;
  const axis = shownAxis.value ?? entryAxis(opened.value?.entries ?? 1);
  const position = axis.positionOf(entry);
  if (x && (position < x.from || position > x.to)) {
    store.xRange.value = within(moved(x, position - (x.from + x.to) / 2), axis.range);
  }
}

/** Starts the worker and opens what the address says. Gives what ends it. */
export function startSession(): () => void {
  source = sourceOfPage();
  worker = remote<WorkerMethods>(new Worker(workerAddress()));
  const stopOpening = effect(() => {
    void open(store.file.value, store.device.value);
  });
  const stopSearching = effect(() => {
    const query = store.query.value;
    // It says at once what is wrong with a query, in signals that it is not to follow.
    if (opened.value) untracked(() => void runSearch(query));
  });
  let timer: ReturnType<typeof setTimeout> | undefined;
  const watch = async () => {
    await refreshFiles();
    if (source.isServed)
      timer = setTimeout(watch, files.value.some(({state}) => state === 'reading') ? SOON_MS : LATER_MS);
  };
  void watch();
  return () => {
    stopOpening();
    stopSearching();
    clearTimeout(timer);
  };
}

/** When to ask again what files there are: while some are being read, and then. */
const [SOON_MS, LATER_MS] = [1000, 5000];

/** Asks what files there are: others may be read by now, or have changed on disk. */
export async function refreshFiles(): Promise<void> {
  try {
    files.value = await source.files();
  } catch (error) {
    if (!opened.value) problem.value = Problem.from(error);
  }
}

/** Adds a dropped or chosen file, and looks at it. */
export async function addFile(added: File): Promise<void> {
  try {
    const id = await source.add(added);
    await refreshFiles();
    batch(() => {
      forgetPlace();
      store.file.value = id;
    });
  } catch (error) {
    problem.value = Problem.from(error);
  }
}

/** Forgets what belongs to one file only: its lifetimes and entries. The visible stretch stays, so that axes are linked. */
export function forgetPlace(): void {
  batch(() => {
    store.device.value = null;
    store.pinned.value = null;
    store.selection.value = null;
    store.cursor.value = null;
    // Frames are numbered by file.
    const {'stacks.zoom': _, 'stacks.frame': __, 'stacks.without': ___, ...others} = store.options.value;
    store.options.value = others;
  });
}

const opens = new Newest();
let generation = 0;

async function open(file: number, device: number | null): Promise<void> {
  const isNewest = opens.begin();
  try {
    const manifest = await source.manifest(file);
    if (manifest.format !== 'highwater-view' || manifest.version !== VIEW_VERSION) {
      throw new Problem({
        error: `the data has version ${manifest.version} of \`${manifest.format}\`, but this page reads version ${VIEW_VERSION}`,
        hint: 'use a page and a program of the same release',
      });
    }
    const chosen = deviceToOpen(manifest, device);
    if (!chosen) {
      throw new Problem({
        error: `\`${manifest.name}\` has no device`,
        hint: 'record with `torch.cuda.memory._record_memory_history()` before the program allocates',
      });
    }
    const seen = await worker.open({manifest, device: chosen.device, addresses: addressesOf(file, manifest, chosen)});
    if (!isNewest()) return;
    sent = '';
    batch(() => {
      problem.value = null;
      linkTimes(opened.value?.device, chosen);
      opened.value = {
        manifest,
        device: chosen,
        generation: ++generation,
        entries: Math.max(1, chosen.entries),
        ...seen,
      };
    });
    document.title = `${manifest.name} · highwater`;
    const shown = opened.value;
    if (!WITH_PICTURE.includes(store.view.value)) pictured.value = shown;
    setTimeout(() => {
      if (opened.value === shown) pictured.value = shown;
    }, PICTURED_MS);
  } catch (error) {
    if (!isNewest()) return;
    batch(() => {
      opened.value = null;
      problem.value = Problem.from(error);
    });
    // The file's tab says it too.
    void refreshFiles();
  }
}

/** Keeps the visible stretch of time when another file is opened: each counts from its own first entry. */
function linkTimes(from: DeviceManifest | undefined, to: DeviceManifest): void {
  const x = store.xRange.value;
  if (x && store.axis.value === 'time' && from?.time_us && to.time_us) {
    store.xRange.value = moved(x, from.time_us[0] - to.time_us[0]);
  }
}

function addressesOf(file: number, manifest: Manifest, device: DeviceManifest): Record<string, SectionAddress> {
  const addresses: Record<string, SectionAddress> = {};
  const add = (name: string, section: ColumnSection) => {
    if (hasPayload(section)) addresses[name] = source.address(file, name);
  };
  for (const [name, section] of Object.entries(manifest.sections)) if (section.type !== 'json') add(name, section);
  for (const [name, section] of Object.entries(device.sections)) add(`${device.device}/${name}`, section);
  addresses.frames = source.address(file, 'frames');
  return addresses;
}

const searches = new Newest();

/** The last query that the worker was sent of the device that it has. */
let sent = '';

async function runSearch(query: string): Promise<void> {
  const isNewest = searches.begin();
  // Nothing was sought and nothing is: pictures stay as they are.
  if (query === '' && sent === '') return;
  sent = query;
  try {
    const sources = regexesOf(query);
    // They are the same texts for each, and it ends what an older search had begun.
    const texts = sources.length > 0 ? await worker.searchTexts() : [];
    const matched: Uint8Array[] = [];
    for (const source of sources) matched.push(await matchingWithin(source, texts));
    if (!isNewest()) return;
    const result = await worker.search(query, matched);
    if (!isNewest()) return;
    batch(() => {
      found.value = result;
      searchProblem.value = null;
      searchGeneration.value++;
    });
  } catch (error) {
    if (!isNewest()) return;
    // What cannot be looked for fades nothing.
    worker.search('', []).catch(() => {});
    batch(() => {
      found.value = undefined;
      searchProblem.value = Problem.from(error);
      searchGeneration.value++;
    });
  }
}
