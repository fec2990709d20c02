/**
 * Regular expressions in a worker of their own, which is ended where one takes too long.
 *
 * `(a+)+$` takes longer than anyone lives on thirty letters, and an engine that has begun cannot be stopped from within. The
 * page starts that worker: in a page from a file, a worker may start none.
 */

import {type Remote, remote} from '../data/rpc';
import {Problem} from '../data/source';
import type {Matching} from '../worker/matching';
import {workerAddress} from './worker-address';

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
          hint: 'nested repetitions such as `(a+)+` take this long: simplify the expression',
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
  const worker = new Worker(workerAddress());
  return {worker, remote: remote<Matching>(worker), isBusy: false};
}

function stopHelper(): void {
  helper?.worker.terminate();
  helper = undefined;
}
