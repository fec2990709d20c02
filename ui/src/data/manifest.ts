/** What the program says of a file before its columns: `docs/viewer-data.md`. */

import type {
  DeviceManifest as AnyDevice,
  Manifest as AnyManifest,
  Encoding,
  IterationSpan as Iteration,
  Mark,
  PeakAt as Peak,
  Scope,
  SectionInfo,
  PhaseSpan as Span,
} from './generated/view';

export type {Encoding, Iteration, Mark, Peak, Scope, Span};

/** One column of numbers. */
export interface ColumnSection extends Omit<SectionInfo, 'encoding'> {
  type: Exclude<SectionInfo['type'], 'json'>;
  length: number;
  /** Absent of those that the page makes itself. */
  encoding?: Encoding;
}

/** Whether a column's numbers have to be fetched. */
export function hasPayload(section: ColumnSection): boolean {
  return section.constant === undefined && section.length > 0;
}

/** One JSON document. */
export type JsonSection = SectionInfo & {type: 'json'};

/** One device of the file: its sections are columns. */
export type DeviceManifest = Omit<AnyDevice, 'sections'> & {sections: Record<string, ColumnSection>};

/** The whole file. */
export type Manifest = Omit<AnyManifest, 'devices' | 'sections'> & {
  sections: Record<string, ColumnSection | JsonSection>;
  devices: DeviceManifest[];
};

/** The device to show: the one that is asked for, or else the one that the report leads with. */
export function deviceToOpen(manifest: Manifest, asked: number | null): DeviceManifest | undefined {
  const numbered = (device: number | null | undefined) => manifest.devices.find(one => one.device === device);
  return numbered(asked) ?? numbered(manifest.opens_on) ?? manifest.devices[0];
}

/** The version of the format that this page reads. */
export const VIEW_VERSION = 1;
