/** Colours of frames: the hue says whose code it is, small differences tell neighbours apart. */

import {hashOf} from '../model/hash';
import type {Owner} from '../model/stacks';
import type {Shade} from './palette';

/** Whose code, as a legend says it. */
export const FRAME_KINDS = {
  own: {words: 'your code', hue: 28, saturation: [82, 52]},
  library: {words: 'libraries', hue: 208, saturation: [62, 42]},
  torch: {words: 'PyTorch', hue: 268, saturation: [38, 26]},
  python: {words: 'Python', hue: 150, saturation: [34, 26]},
  native: {words: 'C++', hue: 190, saturation: [14, 10]},
  none: {words: 'no stack', hue: 220, saturation: [6, 6]},
} as const;

/** One of `FRAME_KINDS`. */
export type FrameKind = keyof typeof FRAME_KINDS;

/** Whose code a frame is, finer than its owner: what is installed is not what one wrote. */
export function kindOf(owner: Owner | undefined, file: string): FrameKind {
  switch (owner) {
    case undefined:
      return 'none';
    case 'user':
      return /[/\\](site|dist)-packages[/\\]/.test(file) ? 'library' : 'own';
    case 'torch':
    case 'generated':
      return 'torch';
    case 'python':
      return 'python';
    default:
      return 'native';
  }
}

/** The colour of a box; `text` is what it differs by within its kind. */
export function frameColour(kind: FrameKind, text: string, shade: Shade): string {
  const hash = hashOf(text);
  const {hue, saturation} = FRAME_KINDS[kind];
  const turn = ((hash >>> 4) % 19) - 9;
  const light = (hash >>> 12) % 9;
  const lightness = shade === 'light' ? 74 + light : 27 + light;
  return `hsl(${hue + turn} ${saturation[shade === 'light' ? 0 : 1]}% ${lightness}%)`;
}

/** The colour that a legend shows for a kind. */
export function kindColour(kind: FrameKind, shade: Shade): string {
  const {hue, saturation} = FRAME_KINDS[kind];
  return shade === 'light' ? `hsl(${hue} ${saturation[0]}% 77%)` : `hsl(${hue} ${saturation[1]}% 32%)`;
}
