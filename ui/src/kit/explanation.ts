/** Why memory ran out, and what to change: `highwater-explain`, asked once for each file. */

import {useSignal} from '@preact/signals';
import type {Explanation, FailureExplained, Step} from '../data/generated/explain';
import type {Manifest} from '../data/manifest';
import {dataSource, type Opened} from '../state/session';
import * as store from '../state/store';
import {type Answer, useAnswer} from './answer';

export type {FailureExplained, Step};

/** A recording with more entries is simulated only when somebody asks: it takes more than some seconds. */
export const UNASKED_ENTRIES = 200_000;

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

/** Whether the explanation is there, or soon will be, without anybody asking. */
export function isQuick({manifest, device}: Opened): boolean {
  return manifest.what_if !== 'live' || device.entries <= UNASKED_ENTRIES || asked.has(manifest);
}

/** The explanation; `ask` where it takes long, and nobody has asked yet. */
export function useExplanation(device: Opened): Answer<Explanation> & {ask: (() => void) | undefined} {
  const isWanted = useSignal(isQuick(device));
  const answer = useAnswer(device, () => (isWanted.value ? explanationOf(device) : null));
  const ask = () => {
    isWanted.value = true;
  };
  return {...answer.value, ask: isWanted.value ? undefined : ask};
}

/** What is said of the failure at an entry. */
export function failureAt({failures}: Explanation, device: number, entry: number): FailureExplained | undefined {
  return (failures ?? []).find(one => one.device === device && one.entry === entry);
}
