/** `highwater-report`: docs/formats.md says what each name means. */

import type {
  CallSite,
  Device as DeviceReport,
  Finding,
  Growth,
  Oom as OutOfMemory,
  Report,
  Frame as ReportFrame,
  Iteration as ReportIteration,
  Phase as ReportPhase,
  ViewerPlace,
} from '../../data/generated/report';
import {shortFrame} from '../../model/frames';

export type {CallSite, DeviceReport, Finding, Growth, OutOfMemory, Report, ReportFrame, ReportIteration, ReportPhase};

/** Where in the viewer something is seen. */
export type Place = ViewerPlace;

/** A search for a call site. */
export function queryOf({frames, label}: Pick<CallSite, 'frames' | 'label'>): string | undefined {
  const [site] = frames;
  if (label) return `"${label}"`;
  return site && (site.line > 0 ? `"${site.filename}:${site.line}"` : `"${site.name}"`);
}

/** A frame of a report in words. */
export function frameWords({name, filename, line}: ReportFrame): string {
  return shortFrame({name, file: filename, line});
}

/** A call site as the program's tables say it: `activations.py:66 forward, from train.py:35 step`. */
export function placeWords({place, label, frames}: {place?: string; label?: string; frames: ReportFrame[]}): string {
  return place || label || (frames[0] ? frameWords(frames[0]) : '(no stack recorded)');
}

/** A setting's value, short: a table of one value is that value. */
export function settingWords(name: string, value: unknown): string {
  if (value === '' || value === null) return 'not set';
  if (name === 'max_split_size' && value === -1) return 'unlimited';
  if (typeof value === 'object') {
    const parts = Object.entries(value as Record<string, unknown>);
    const values = new Set(parts.map(([, one]) => String(one)));
    if (values.size === 1) return [...values][0] === '0' ? 'off' : [...values][0];
    return parts.map(([size, one]) => `${size}:${String(one)}`).join(', ');
  }
  return String(value);
}
