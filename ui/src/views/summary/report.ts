/** `highwater-report`, as far as the page shows it: docs/report.md says what each name means. */

import {shortFrame} from '../../model/frames';

/** A frame of the report. */
export interface ReportFrame {
  name: string;
  filename: string;
  line: number;
}

export interface Finding {
  id: string;
  severity: 'error' | 'warning' | 'info';
  title: string;
  detail: string;
  saving_bytes?: number;
  estimated?: boolean;
  change?: string;
}

export interface OutOfMemory {
  entry: number;
  requested_bytes: number;
  device_free_bytes?: number | null;
  allocated_bytes: number;
  reserved_bytes: number;
  explanation: string;
  frames: ReportFrame[];
}

export interface ReportPhase {
  name: string;
  start_entry: number;
  end_entry: number;
  peak_requested_bytes: number;
  peak_allocated_bytes?: number;
}

export interface ReportIteration {
  start_entry: number;
  /** Inclusive. */
  end_entry: number;
  complete: boolean;
  peak_entry?: number;
  peak_requested_bytes: number;
  peak_allocated_bytes?: number;
  end_requested_bytes: number;
  end_allocated_bytes?: number;
  phases: ReportPhase[];
}

export interface Growth {
  bytes_per_iteration: number;
  bytes: number;
  count: number;
  iterations: number;
  counted: number;
  label?: string;
  place?: string;
  frames: ReportFrame[];
}

export interface CallSite {
  bytes: number;
  requested_bytes: number;
  count: number;
  label?: string;
  place?: string;
  frames: ReportFrame[];
}

/** Totals by name: `allocated_bytes`, …; of the peak also `allocated_entry` and `…_at_most`. */
export type Totals = Record<string, number | null | undefined>;

export interface DeviceReport {
  device: number;
  entries: number;
  start: Totals;
  end: Totals;
  peak: Totals;
  block_sizes: {known: string; reason?: string};
  at_peak?: {
    by: string;
    entry: number | null;
    iteration: number | null;
    phase: string | null;
    scopes: string[];
    categories?: Record<string, number>;
    call_sites: CallSite[];
  } & Record<string, unknown>;
  fragmentation: Totals;
  iterations_by?: string;
  iterations: ReportIteration[];
  growth: Growth[];
  oom: OutOfMemory[];
  findings: Finding[];
}

export interface Report {
  format: 'highwater-report';
  version: number;
  verdict: string;
  devices: DeviceReport[];
  settings?: Record<string, unknown> | null;
  torch: {version: string; known: boolean};
  warnings: {id: string; message: string; count: number; entry?: number; device?: number}[];
  host?: unknown;
}

/** Where in the viewer something is seen. */
export interface Place {
  readonly words: string;
  readonly view: 'timeline' | 'state' | 'segments' | 'stacks' | 'what-if';
  readonly cursor?: number;
  readonly selection?: {from: number; to: number};
  readonly query?: string;
}

/** The places that a finding speaks of. */
export function placesOf({id}: Pick<Finding, 'id'>, device: DeviceReport): Place[] {
  switch (id) {
    case 'oom': {
      const first = device.oom[0];
      return first ? placesOfError(first) : [];
    }
    case 'growth':
      return growthPlaces(device);
    case 'allocator-settings':
      return [{words: 'try settings', view: 'what-if'}];
    case 'varying-shapes':
    case 'reserved-unused': {
      const entry = device.peak.reserved_entry;
      return typeof entry === 'number'
        ? [
            {words: 'segments over time', view: 'segments', cursor: entry},
            {words: 'state at the reserved peak', view: 'state', cursor: entry},
          ]
        : [{words: 'segments over time', view: 'segments'}];
    }
    case 'awaiting-free': {
      const entry = device.peak.active_entry;
      return typeof entry === 'number' ? [{words: 'state at the active peak', view: 'state', cursor: entry}] : [];
    }
    case 'truncated':
    case 'late-recording':
      return [{words: 'what was there before', view: 'timeline', cursor: 0, query: 'before'}];
    case 'no-stacks':
    case 'private-pools':
    case 'empty-cache':
      return [];
    default: {
      const entry = device.at_peak?.entry;
      return typeof entry === 'number' ? [{words: 'state at the peak', view: 'state', cursor: entry}] : [];
    }
  }
}

/** The places of an out-of-memory error: its entry, and the state that it met. */
export function placesOfError({entry}: Pick<OutOfMemory, 'entry'>): Place[] {
  return [
    {words: 'in the timeline', view: 'timeline', cursor: entry},
    {words: 'state at the error', view: 'state', cursor: entry},
  ];
}

function growthPlaces({growth, iterations}: DeviceReport): Place[] {
  const complete = iterations.filter(({complete}) => complete);
  // As the report counts them: what the first one leaves stays by design, and the last one's is still in use.
  const counted = complete.length > 2 ? complete.slice(1, -1) : complete;
  if (counted.length === 0) return [];
  const selection = {from: counted[0].start_entry, to: counted[counted.length - 1].end_entry + 1};
  const [first] = growth;
  const query = first && queryOf(first);
  return [
    {words: 'what it leaves behind, in the timeline', view: 'timeline', selection, ...(query ? {query} : {})},
    {words: 'stacks of what is kept', view: 'stacks', selection},
  ];
}

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
  return place || label || (frames[0] ? frameWords(frames[0]) : '?');
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
