/** Opening a device of a file: its manifest is read, then its columns in the worker. */

import {
  type ColumnSection,
  type DeviceManifest,
  deviceToOpen,
  hasPayload,
  type Manifest,
  VIEW_VERSION,
} from '../data/manifest';
import type {Remote} from '../data/rpc';
import {Problem, type SectionAddress, type Source} from '../data/source';
import type {WorkerMethods} from '../worker/main';

/** What an address says that has to be read. */
export interface Target {
  readonly file: number;
  /** `null` for the device that the report leads with. */
  readonly device: number | null;
}

/** A device that the worker holds. */
export interface Reached {
  readonly manifest: Manifest;
  readonly device: DeviceManifest;
  readonly seen: Awaited<ReturnType<WorkerMethods['open']>>;
}

/** The target of the text after `#`; file 0 and no device where it says none. */
export function targetOf(hash: string): Target {
  const words = new URLSearchParams(hash.replace(/^#/, ''));
  return {file: whole(words.get('file')) ?? 0, device: whole(words.get('device'))};
}

/** A whole number as an address has it. */
export function whole(text: string | null): number | null {
  return text !== null && /^\d{1,15}$/.test(text) ? Number(text) : null;
}

/**
 * Has the worker open a device.
 *
 * Throws a `Problem`: what keeps the page from showing it.
 */
export async function openDevice(
  source: Source,
  worker: Remote<WorkerMethods>,
  {file, device}: Target,
): Promise<Reached> {
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
  const addresses = addressesOf(source, file, manifest, chosen);
  const seen = await worker.open({manifest, device: chosen.device, addresses});
  return {manifest, device: chosen, seen};
}

function addressesOf(
  source: Source,
  file: number,
  manifest: Manifest,
  device: DeviceManifest,
): Record<string, SectionAddress> {
  const addresses: Record<string, SectionAddress> = {};
  const add = (name: string, section: ColumnSection) => {
    if (hasPayload(section)) addresses[name] = source.address(file, name);
  };
  for (const [name, section] of Object.entries(manifest.sections)) if (section.type !== 'json') add(name, section);
  for (const [name, section] of Object.entries(device.sections)) add(`${device.device}/${name}`, section);
  addresses.frames = source.address(file, 'frames');
  return addresses;
}
