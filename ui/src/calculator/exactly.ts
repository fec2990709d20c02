/** Exact bytes, as far as JavaScript has them. */

import {binary, exact} from '../model/units';

/** `1.50 GiB (1,610,612,736 bytes)`; above 2^53 the bytes were rounded on the way, so they are not shown. */
export function exactly(bytes: number): string {
  return Number.isSafeInteger(bytes) ? exact(bytes) : `about ${binary(bytes)}`;
}
