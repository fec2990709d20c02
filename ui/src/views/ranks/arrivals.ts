/** What is asked of many files, one after the other, as it comes. */

import {useSignal} from '@preact/signals';
import {useEffect, useRef} from 'preact/hooks';

/** Files that are asked at the same time. */
const AT_ONCE = 6;
/** Answers that come within this time are shown together: each change lays out all of the page. */
const TOGETHER_MS = 150;

/** The answers of the files so far. Files that join `wanted` are asked after those that wait; one that fails stays away. */
export function useArrivals<T>(
  wanted: readonly number[],
  ask: (file: number, signal: AbortSignal) => Promise<T>,
): ReadonlyMap<number, T> {
  const answers = useSignal<ReadonlyMap<number, T>>(new Map());
  const queue = useRef<number[]>([]);
  const asked = useRef(new Set<number>());
  const running = useRef(0);
  const fresh = useRef(new Map<number, T>());
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  const abort = useRef<AbortController | undefined>(undefined);

  useEffect(
    () => () => {
      clearTimeout(timer.current);
      abort.current?.abort();
    },
    [],
  );

  const show = () => {
    timer.current = undefined;
    answers.value = new Map([...answers.peek(), ...fresh.current]);
    fresh.current = new Map();
  };
  const work = async (signal: AbortSignal) => {
    for (let file = queue.current.shift(); file !== undefined; file = queue.current.shift()) {
      const answer = await ask(file, signal).catch(() => undefined);
      if (signal.aborted) return;
      if (answer === undefined) continue;
      fresh.current.set(file, answer);
      timer.current ??= setTimeout(show, TOGETHER_MS);
    }
    running.current--;
  };
  useEffect(() => {
    abort.current ??= new AbortController();
    for (const file of wanted) {
      if (asked.current.has(file)) continue;
      asked.current.add(file);
      queue.current.push(file);
    }
    while (running.current < AT_ONCE && running.current < queue.current.length) {
      running.current++;
      void work(abort.current.signal);
    }
  }, [wanted.join()]);
  return answers.value;
}
