/** Regular expressions over texts: what a worker does that can be ended, see `state/matching.ts`. */

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
