/** Colours: distinct for those who see them and for those who do not, on light and on dark. */

import type {Abgr} from './paint';

/** The colours of the largest groups, in order. Neighbours differ in lightness, not in hue alone (after Paul Tol). */
export const LEADING = [
  '#4477aa',
  '#ee8866',
  '#44aa77',
  '#ddcc77',
  '#aa4499',
  '#77bbdd',
  '#cc6677',
  '#999933',
  '#5566bb',
  '#eebbaa',
  '#228877',
  '#bb8855',
] as const;

/** What a picture lies on. */
export const BACKGROUND = {light: '#ffffff', dark: '#15181d'} as const;

/** Reserved memory without an active block. */
export const FREE = {light: '#e3e7eb', dark: '#2a3037'} as const;

/** `light` or `dark`. */
export type Shade = keyof typeof BACKGROUND;

/** `#rrggbb` as a pixel. */
export function pixelOf(hex: string): Abgr {
  const rgb = Number.parseInt(hex.slice(1), 16);
  return (0xff000000 | ((rgb & 0xff) << 16) | (rgb & 0xff00) | (rgb >>> 16)) >>> 0;
}

/** A pixel as `#rrggbb`. */
export function hexOf(pixel: Abgr): string {
  const rgb = ((pixel & 0xff) << 16) | (pixel & 0xff00) | ((pixel >>> 16) & 0xff);
  return `#${rgb.toString(16).padStart(6, '0')}`;
}

/**
 * A colour for each group: the leading ones for those that come first in `order`, quiet ones for the rest, which differ
 * from group to group and stay the same from file to file.
 */
export function groupColours(count: number, order: readonly number[], labelOf: (group: number) => string): Uint32Array {
  const colours = new Uint32Array(count);
  const leading = new Map(order.slice(0, LEADING.length).map((group, rank) => [group, rank]));
  for (let group = 0; group < count; group++) {
    const rank = leading.get(group);
    colours[group] = rank === undefined ? quiet(labelOf(group)) : pixelOf(LEADING[rank]);
  }
  return colours;
}

/** A greyish colour made from a text. */
function quiet(text: string): Abgr {
  let hash = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193);
  const tone = (shift: number) => 0x7c + ((hash >>> shift) & 0x3f);
  return (0xff000000 | (tone(0) << 16) | (tone(8) << 8) | tone(16)) >>> 0;
}
