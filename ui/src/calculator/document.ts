/** What the module answers: `highwater-estimate`, as `highwater estimate --format json` prints it. `docs/estimate.md`. */

import type {Card, Change, EstimateDocument, Fit, PhasePeak, Term} from '../data/generated/estimate';
import type {ProblemBody} from '../data/source';

/** The categories of the report, in its order. */
export const CATEGORIES = [
  'parameter',
  'gradient',
  'optimizer_state',
  'activation',
  'cache',
  'input',
  'temporary',
  'workspace',
] as const satisfies readonly Term['category'][];

export type Category = Term['category'];

export type {Card, Change, EstimateDocument, Fit, PhasePeak as Phase, Term};

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

/** An engine that serves, and its flags that people set first. */
export interface Engine {
  name: string;
  /** As people write it. */
  title: string;
  /** The newest release that was compared with logs. */
  release: string;
  cache_types: string[];
  /** `takes` is what a flag takes: `N`, `SHARE`, `TYPE`, a word; empty for a switch. */
  fields: {name: string; label: string; help: string; takes: string}[];
}

/** What the module says can be chosen. */
export interface Choices {
  engines: Engine[];
  models: string[];
  /** `title` is the name as people write it. */
  cards: {name: string; title: string; memory_bytes: number}[];
  options: Option[];
}

/** An answer as text, parsed: the document, or why there is none. */
export function parsed<T extends object>(text: string): T | ProblemBody {
  return JSON.parse(text) as T | ProblemBody;
}

export function isProblem(answer: object): answer is ProblemBody {
  return 'error' in answer;
}
