/**
 * Regular expressions in a worker of their own, which is ended where one takes too long.
 *
 * `(a+)+$` takes longer than anyone lives on thirty letters, and an engine that has begun cannot be stopped from within.
 */

import {type Remote, remote} from '../data/rpc';
import {Problem} from '../data/source';
import {REGEX_FLAGS} from '../model/search-query';

/** What the matching worker can be asked. */
export interface Matching {
  /** For each text, whether a regular expression matches a part of it: one byte a text. */
  matching(source: string, texts: readonly string[]): Uint8Array;
}

export const MATCHING: Matching = {
  matching: (source, texts) => {
    const regex = new RegExp(source, REGEX_FLAGS);
    return Uint8Array.from(texts, text => (regex.test(text) ? 1 : 0));
  },
};

/** The longest that a regular expression may take, in milliseconds. */
const LIMIT_MS = 2000;

let helper: {worker: Worker; remote: Remote<Matching>; isBusy: boolean} | undefined;

/** As `MATCHING`, in a worker of its own. Throws a `Problem` where it takes too long. */
export async function matchingWithin(source: string, texts: readonly string[]): Promise<Uint8Array> {
  // One that still works was asked by a search that nobody waits for any more.
  if (helper?.isBusy) stopHelper();
  helper ??= startHelper();
  const mine = helper;
  mine.isBusy = true;
  let timer: ReturnType<typeof setTimeout> | undefined;
  const limit = new Promise<never>((_, reject) => {
    timer = setTimeout(() => {
      if (helper === mine) stopHelper();
      reject(
        new Problem({
          error: `\`/${source}/\` was stopped after ${LIMIT_MS / 1000} s`,
          hint: 'repetitions inside of repetitions, such as `(a+)+`, take this long: write it simpler',
        }),
      );
    }, LIMIT_MS);
  });
  try {
    return await Promise.race([mine.remote.matching(source, texts), limit]);
  } finally {
    clearTimeout(timer);
    mine.isBusy = false;
  }
}

function startHelper(): NonNullable<typeof helper> {
  // The same program: it has both parts.
  const worker = new Worker(self.location.href);
  return {worker, remote: remote<Matching>(worker), isBusy: false};
}

function stopHelper(): void {
  helper?.worker.terminate();
  helper = undefined;
}
