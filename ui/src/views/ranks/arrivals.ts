/** What is asked of many files, as it comes. */

import {useSignal} from '@preact/signals';
import {useEffect, useRef} from 'preact/hooks';

/** So many files are asked in one request: `MAX_OUTLINES` in `crates/viewer/src/routes.rs`. */
const TOGETHER = 128;

/** The answers of the files so far. Files that join `wanted` are asked after those that wait; one that fails stays away. */
export function useArrivals<T>(
  wanted: readonly number[],
  ask: (files: readonly number[], signal: AbortSignal) => Promise<Record<number, T>>,
): ReadonlyMap<number, T> {
  const answers = useSignal<ReadonlyMap<number, T>>(new Map());
  const state = useRef({left: [] as number[], asked: new Set<number>(), isAsking: false, abort: new AbortController()});

  useEffect(() => () => state.current.abort.abort(), []);
  useEffect(() => {
    const {left, asked, abort} = state.current;
    const next = async () => {
      state.current.isAsking = true;
      while (left.length > 0) {
        const some = left.splice(0, TOGETHER);
        const came = await ask(some, abort.signal).catch(() => ({}) as Record<number, T>);
        if (abort.signal.aborted) return;
        const fresh = some.flatMap(file => (file in came ? [[file, came[file]] as const] : []));
        answers.value = new Map([...answers.peek(), ...fresh]);
      }
      state.current.isAsking = false;
    };
    for (const file of wanted) {
      if (asked.has(file)) continue;
      asked.add(file);
      left.push(file);
    }
    if (!state.current.isAsking) void next();
  }, [wanted.join()]);
  return answers.value;
}
