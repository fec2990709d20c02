/** Names of files as short as they can be told apart: of `run_rank0.pickle` and `run_rank1.pickle`, `rank0` and `rank1`. */

/** What snapshots end in: it tells nothing. */
const ENDING = /\.(pickle|pkl|json|html)(\.gz|\.zst)?$/i;
const SEPARATOR = /([-_.\s/\\]+)/;

/** Each name without what all of them begin and end with, words whole; all of it where that would leave two alike, or no letter. */
export function shortNames(names: readonly string[]): string[] {
  const bare = names.map(name => name.replace(ENDING, '') || name);
  if (bare.length < 2) return bare;
  // Words at the even places, what stands between them at the odd ones.
  const words = bare.map(name => name.split(SEPARATOR));
  const shortest = Math.min(...words.map(({length}) => length));
  const isCommon = (at: number) => words.every(one => one.at(at) === words[0].at(at));
  let before = 0;
  while (before < shortest - 1 && isCommon(before) && isCommon(before + 1)) before += 2;
  let after = 0;
  while (after < shortest - 1 - before && isCommon(-1 - after) && isCommon(-2 - after)) after += 2;
  const cut = () => words.map(one => one.slice(before, one.length - after).join(''));
  // `rank_0`, not `0`: a number needs its word.
  while (before > 0 && cut().some(name => !/\p{L}/u.test(name))) before -= 2;
  const short = cut();
  return new Set(short).size === new Set(bare).size ? short : bare;
}
