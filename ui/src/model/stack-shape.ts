/** From the stacks of a file to the tree that is shown: which frames are folded, and what stands for them. */

import {type Key, type Shape, ShapeBuilder} from './flame-tree';
import {OWNERS, type Stacks} from './stacks';

/**
 * Which frames are shown: `own` the user's own only; `folded` these, and a box for each run of others between them; `all`
 * all but the machinery that captured the stack.
 */
export const FOLDS = ['own', 'folded', 'all'] as const;

/** One of `FOLDS`. */
export type Fold = (typeof FOLDS)[number];

/** The tree of all stacks, and where each stack is in it. */
export interface StackShape {
  readonly shape: Shape;
  /** For each stack, its node. */
  readonly nodeOf: Uint32Array;
  /** The key of a run of folded frames. */
  readonly foldedKey: Key;
}

/** The words for a run of folded frames. */
export const FOLDED_WORDS = '(PyTorch …)';

const USER = OWNERS.indexOf('user');
const UNWINDING = OWNERS.indexOf('unwinding');

/**
 * The tree of all stacks.
 *
 * A stack of which nothing is shown is shown as its call site. `collapses` leaves out a frame that is already among those
 * that called it.
 */
export function stackShape(stacks: Stacks, fold: Fold, collapses: boolean): StackShape {
  const owner = Uint8Array.from({length: stacks.frameCount}, (_, frame) => stacks.ownerOf(frame));
  const foldedKey = stacks.siteCount;
  const builder = new ShapeBuilder();
  const at = new Uint32Array(stacks.nodeCount);
  for (let node = 0; node < at.length; node++) {
    const caller = stacks.parentOf(node);
    const above = caller < 0 ? 0 : at[caller];
    const frame = stacks.frameOf(node);
    const isHidden = owner[frame] === UNWINDING || (fold !== 'all' && owner[frame] !== USER);
    if (!isHidden) at[node] = collapses && isCalledFrom(builder, above, frame) ? above : builder.child(above, frame);
    else if (fold !== 'folded' || owner[frame] === UNWINDING) at[node] = above;
    else at[node] = builder.keyOf(above) === foldedKey ? above : builder.child(above, foldedKey);
  }
  const nodeOf = new Uint32Array(stacks.count);
  for (let stack = 0; stack < nodeOf.length; stack++) {
    const node = stacks.nodeOf(stack);
    const shown = node < 0 ? 0 : at[node];
    const isNothing = shown === 0 || (builder.keyOf(shown) === foldedKey && builder.parentOf(shown) === 0);
    nodeOf[stack] = isNothing ? builder.child(0, stacks.sites[stack]) : shown;
  }
  return {shape: builder.finish(), nodeOf, foldedKey};
}

function isCalledFrom(builder: ShapeBuilder, node: number, key: Key): boolean {
  for (let up = node; up !== 0; up = builder.parentOf(up)) if (builder.keyOf(up) === key) return true;
  return false;
}
