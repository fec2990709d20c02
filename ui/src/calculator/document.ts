/** What the module answers: `highwater-estimate`, as `highwater estimate --format json` prints it. `docs/estimate.md`. */

import type {Card, Change, EstimateDocument, Fit, PhasePeak, Term} from '../data/generated/estimate';
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
] as const satisfies readonly Term['category'][];

export type Category = Term['category'];

export type {Card, Change, EstimateDocument, Fit, PhasePeak as Phase, Term};

/** What the module says can be chosen. */
export interface Choices {
  models: string[];
  cards: {name: string; memory_bytes: number}[];
  /** Each option's word if nobody says one; empty for none. */
  usual: Record<string, string>;
  choices: Record<string, {name: string; help: string}[]>;
}

/** An answer as text, parsed: the document, or why there is none. */
export function parsed<T extends object>(text: string): T | ProblemBody {
  return JSON.parse(text) as T | ProblemBody;
}

export function isProblem(answer: object): answer is ProblemBody {
  return 'error' in answer;
}
