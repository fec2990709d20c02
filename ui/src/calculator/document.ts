/** What the module answers: `highwater-estimate`, as `highwater estimate --format json` prints it. `docs/estimate.md`. */

import type {ProblemBody} from '../data/source';

/** The categories of the report, in its order. */
export const CATEGORIES = [
  'parameter',
  'gradient',
  'optimizer_state',
  'activation',
  'input',
  'temporary',
  'workspace',
] as const;

export type Category = (typeof CATEGORIES)[number];

export interface Term {
  category: Category;
  part: string;
  name: string;
  count: number;
  bytes: number;
  formula: string;
}

export interface Phase {
  phase: string;
  peak_requested_bytes: number;
}

export interface Card {
  name: string;
  memory_bytes: number;
  fits: boolean;
  /** Negative for what is missing. */
  spare_bytes: number;
}

export interface Change {
  change: string;
  cost: string;
  total_bytes: number;
  fits: boolean;
}

export interface Fit {
  limit_bytes: number;
  fits: boolean;
  largest_batch?: number;
  changes: Change[];
}

/** Bytes are those of one card; above 2^53 JavaScript has them rounded, see `exactly`. */
export interface EstimateDocument {
  format: 'highwater-estimate';
  model: string;
  family: string;
  parameters: number;
  trainable_parameters: number;
  counted_parameters?: number;
  peak_requested_bytes: number;
  peak_allocated_bytes: number;
  workspace_bytes: number;
  peak_reserved_bytes: number;
  context_bytes: number;
  total_bytes: number;
  activations_per_token: number;
  saved_bytes_per_token: number;
  held_outputs_bytes: number;
  peak_phase: string;
  phases: Phase[];
  breakdown: Record<Category | 'unknown', number>;
  terms: Term[];
  error_band: {low_bytes: number; high_bytes: number; percent: number; evidence: string};
  assumptions: string[];
  setup: {batch: number; seq: number; dtype: string; autocast: string | null; checkpointing: boolean};
  cards: Card[];
  fit?: Fit;
}

/** An option of `highwater estimate`, and how to ask for it: a row of the program's table. */
export interface Option {
  name: string;
  help: string;
  kind: 'flag' | 'count' | 'share' | 'word';
  /** Its word if nobody says one; empty for none. */
  usual: string;
  /** What a word can be. */
  choices?: {name: string; help: string}[];
  /** The option without which it means nothing. */
  needs?: string;
  /** The option that it cannot stand beside. */
  excludes?: string;
  field: {
    /** The heading; empty for above all. */
    group: string;
    label: string;
    /** What stands for not choosing. */
    none?: string;
    /** The ends of a slider. */
    slider?: [number, number];
    /** The only mode in which it means something. */
    mode?: string;
  };
}

/** What the module says can be chosen. */
export interface Choices {
  models: string[];
  cards: {name: string; memory_bytes: number}[];
  options: Option[];
}

/** An answer as text, parsed: the document, or why there is none. */
export function parsed<T extends object>(text: string): T | ProblemBody {
  return JSON.parse(text) as T | ProblemBody;
}

export function isProblem(answer: object): answer is ProblemBody {
  return 'error' in answer;
}
