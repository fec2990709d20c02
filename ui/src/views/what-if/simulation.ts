/** `highwater-simulate` with timelines, as far as the page shows it: docs/simulate.md says what each name means. */

import type {ReportFrame} from '../summary/report';

export interface SimulatedRun {
  conf: string;
  capacity_bytes: number | null;
  card?: string;
  outcome: 'fits' | 'oom';
  oom_entry?: number;
  peak_allocated_bytes: number;
  peak_reserved_bytes: number;
  peak_reserved_range_bytes?: [number, number];
  num_alloc_retries: number;
  num_ooms: number;
  confidence: 'exact' | 'address-sensitive' | 'premise-broken';
  reason?: string;
  oom?: {
    requested_bytes: number;
    message: string;
    place?: string;
    frames: ReportFrame[];
    pinning?: {
      count: number;
      bytes: number;
      is_smallest: boolean;
      call_sites: {place?: string; frames: ReportFrame[]}[];
    };
  };
}

export interface CardFit {
  gigabytes: number;
  name: string;
  total_bytes: number;
  fits: boolean;
  num_alloc_retries: number;
}

export interface Fit {
  conf: string;
  min_capacity_bytes: number;
  min_capacity_any_order_bytes: number;
  over_live_ratio: number;
  num_alloc_retries: number;
  ample_reserved_bytes: number;
  cards: CardFit[];
}

export interface SimulatedTimeline {
  conf: string;
  capacity_bytes: number | null;
  /** Ascending. */
  entries: number[];
  /** After each of them, until the next. */
  reserved_bytes: number[];
  oom_entry?: number;
}

export interface Simulation {
  format: 'highwater-simulate';
  version: number;
  device: number;
  torch?: {version: string; replayed: string; chosen_by: string};
  fidelity?: {entries: number; equal: number};
  premise?: string;
  verdict?: {kind: string; text: string; conf?: string; capacity_bytes?: number};
  runs: SimulatedRun[];
  bound?: {live_bytes: number; live_entry?: number; packed_bytes?: number; proven_optimal?: boolean};
  fit: Fit[];
  alarms: {conf: string; own_reserved_bytes: number; reserved_bytes: number}[];
  waterfall: {cause: string; bytes: number}[];
  sites: {
    count: number;
    requested_bytes: number;
    hoisted_saves_bytes: number;
    pooled_saves_bytes: number;
    place?: string;
    frames: ReportFrame[];
  }[];
  empty_caches: {entry: number | null; calls: number; device_allocs: number; saved_bytes: number}[];
  timelines?: SimulatedTimeline[];
}

/** Settings as they are shown. */
export function confWords(conf: string): string {
  return conf === '' ? 'default settings' : conf;
}

/** The smallest card that a program fits; undefined if none that is known. */
export function smallestCard({cards}: Fit): CardFit | undefined {
  // Survival is not monotone: a card counts only if all larger ones fit too.
  const failing = cards.findLastIndex(({fits}) => !fits);
  return cards[failing + 1];
}
