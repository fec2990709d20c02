/** Why memory ran out, and what to change: `highwater-explain`, asked once for each file. */

import type {Explanation, FailureExplained, Step} from '../data/generated/explain';
import type {Manifest} from '../data/manifest';
import {dataSource, type Opened} from '../state/session';
import * as store from '../state/store';

export type {FailureExplained, Step};

const asked = new WeakMap<Manifest, Promise<Explanation>>();

/** The explanation of a file; `null` where no request failed. */
export function explanationOf({manifest}: Opened): Promise<Explanation> | null {
  if (!manifest.sections.explain) return null;
  const known = asked.get(manifest);
  if (known) return known;
  const answer = dataSource().json<Explanation>(store.file.peek(), 'explain');
  asked.set(manifest, answer);
  answer.catch(() => asked.delete(manifest));
  return answer;
}

/** What is said of the failure at an entry. */
export function failureAt({failures}: Explanation, device: number, entry: number): FailureExplained | undefined {
  return (failures ?? []).find(one => one.device === device && one.entry === entry);
}
