/** A value of the worker, or of the program behind the page, that follows signals. */

import {type Signal, useSignal, useSignalEffect} from '@preact/signals';
import {Problem} from '../data/source';
import {type Opened, opened} from '../state/session';

/** What is known of an answer by now. */
export interface Answer<T> {
  /** The newest; it stays while the next one is made. */
  readonly value: T | null;
  readonly problem: Problem | null;
  readonly isBusy: boolean;
}

/** Asks again whenever a signal that `ask` reads has changed. `ask` gives `null` where there is nothing to ask. */
export function useAnswer<T>(device: Opened, ask: () => Promise<T> | null): Signal<Answer<T>> {
  const answer = useSignal<Answer<T>>({value: null, problem: null, isBusy: true});
  useSignalEffect(() => {
    if (opened.value !== device) return;
    let isStale = false;
    const settle = (next: Answer<T>) => {
      if (!isStale) answer.value = next;
    };
    const asked = ask();
    if (!asked) settle({value: null, problem: null, isBusy: false});
    else {
      answer.value = {...answer.peek(), isBusy: true};
      asked.then(
        value => settle({value, problem: null, isBusy: false}),
        error => settle({value: null, problem: Problem.from(error), isBusy: false}),
      );
    }
    return () => {
      isStale = true;
    };
  });
  return answer;
}
