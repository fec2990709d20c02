/** Colours: distinct for those who see them and for those who do not, on light and on dark. */

import {CATEGORY_COLOURS} from '../data/generated/colours';
import {hashOf} from '../model/hash';
import type {Abgr} from './paint';

/** Colours of the few, in order. Neighbours differ in lightness, not in hue alone (after Paul Tol). */
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

/** The colour of a category, the same in every file and on every page. */
export function categoryColour(category: string): string {
  return CATEGORY_COLOURS[category as keyof typeof CATEGORY_COLOURS] ?? CATEGORY_COLOURS.unknown;
}

/** Colours for groups that have an order of their own and are few: the leading ones, then what their words give. */
export function colourInOrder(group: number, label: string): Abgr {
  return group < LEADING.length ? pixelOf(LEADING[group]) : colourOfHash(hashOf(label));
}

/** The colour of a class of sizes: the larger, the stronger, from pale yellow over orange to purple. */
export function sizeColour(group: number, count: number): Abgr {
  const share = count > 1 ? group / (count - 1) : 1;
  return fromOklch(0.89 - 0.41 * share, 0.06 + 0.1 * share, 95 - 115 * share);
}

/** Colours that are told apart at a glance: twelve hues, dark and light. */
const SLOTS = 24;
/** From a slot that is taken to the next that is tried: with it, all are tried. */
const SLOT_STEP = 7;

/**
 * A colour made from a number (`hashOf`), the same in every file: one of those that are told apart at a glance, a little off, so that
 * lines of the same one differ.
 */
export function colourOfHash(hash: number, slot = slotOf(hash)): Abgr {
  const mixed = spread(hash);
  const isLight = slot % 2 === 1;
  const hue = (slot >>> 1) * 30 + ((mixed >>> 8) % 17) - 8;
  const lightness = (isLight ? 0.75 : 0.57) + 0.002 * ((mixed >>> 16) % 17);
  return fromOklch(lightness, isLight ? 0.1 : 0.13, hue + (isLight ? 15 : 0));
}

/** Colours of the owners of memory outside PyTorch, by their names: the same in every file with the same owners. */
export function ownerColours(titles: readonly string[]): string[] {
  const slots = slotsOfLargest(titles.map(title => hashOf(title)));
  return titles.map(title => hexOf(colourOfHash(hashOf(title), slots.get(hashOf(title)))));
}

function slotOf(hash: number): number {
  return spread(hash) % SLOTS;
}

/**
 * Slots for the few largest, so that no two of them look alike: each has its own, or, where another of them has it, the next one.
 * Files with the same few give each the same.
 */
export function slotsOfLargest(hashes: readonly number[]): Map<number, number> {
  const slots = new Map<number, number>();
  const taken = new Set<number>();
  for (const hash of [...new Set(hashes)].sort((a, b) => a - b).slice(0, SLOTS)) {
    let slot = slotOf(hash);
    while (taken.has(slot)) slot = (slot + SLOT_STEP) % SLOTS;
    taken.add(slot);
    slots.set(hash, slot);
  }
  return slots;
}

/** MurmurHash3's last step: lines that differ in a digit get colours that differ. */
function spread(hash: number): number {
  let mixed = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2ae35);
  return (mixed ^ (mixed >>> 16)) >>> 0;
}

/** A pixel of a colour in Oklch (https://bottosson.github.io/posts/oklab/): equally light for equal `lightness`, whatever its hue. */
function fromOklch(lightness: number, chroma: number, hueDegrees: number): Abgr {
  const a = chroma * Math.cos((hueDegrees * Math.PI) / 180);
  const b = chroma * Math.sin((hueDegrees * Math.PI) / 180);
  const l = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const m = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const s = (lightness - 0.0894841775 * a - 1.291485548 * b) ** 3;
  const red = byteOf(4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s);
  const green = byteOf(-1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s);
  const blue = byteOf(-0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s);
  return (0xff000000 | (blue << 16) | (green << 8) | red) >>> 0;
}

/** A linear part of a colour, from 0 to 1, as sRGB's byte. */
function byteOf(linear: number): number {
  const part = linear <= 0.0031308 ? 12.92 * linear : 1.055 * linear ** (1 / 2.4) - 0.055;
  return Math.round(255 * Math.min(Math.max(part, 0), 1));
}
