/** What `start.ts` began before the page's program was there. */

import type {Reached, Target} from './opening';

/** The worker, and the device that it opens. */
export interface HeadStart {
  readonly worker: Worker;
  readonly target: Target;
  readonly reached: Promise<Reached>;
}

const place = globalThis as {__highwaterHeadStart?: HeadStart | undefined};

/** Leaves it for the page's program. */
export function leaveHeadStart(made: HeadStart): void {
  place.__highwaterHeadStart = made;
}

/** Takes it, once; a page that is one file has none. */
export function takeHeadStart(): HeadStart | undefined {
  const made = place.__highwaterHeadStart;
  place.__highwaterHeadStart = undefined;
  return made;
}
