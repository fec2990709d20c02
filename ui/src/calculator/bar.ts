/** Where everything stands in the stacked bar. Places are shares of its width, from 0 to 1. */

import {categoryColour, FREE, type Shade} from '../draw/palette';
import {categoryWords} from '../model/categories';
import {CATEGORIES, type Card, type Category, type EstimateDocument} from './document';

/** A part of the bar. */
export interface Part {
  readonly id: string;
  readonly label: string;
  /** What it is, where the label is not enough. */
  readonly hint: string;
  readonly bytes: number;
  readonly from: number;
  readonly to: number;
}

/** A card's line. */
export interface CardLine {
  readonly names: readonly string[];
  readonly bytes: number;
  readonly at: number;
  readonly isChosen: boolean;
  /** The side of the line on which there is room for its name. */
  readonly label: 'left' | 'right' | null;
}

/** Bytes at the right end: all of it and the chosen card, with some air. */
export function barEnd(document: EstimateDocument, chosen: Card | undefined): number {
  return Math.max(document.total_bytes, chosen?.memory_bytes ?? 0, 1) * 1.04;
}

/** The parts of the bar from the left: the peak by category, then what lies beside it on the card. They add up to the total. */
export function segments(document: EstimateDocument, end: number): Part[] {
  const {breakdown, workspace_bytes: workspaces, peak_requested_bytes: requested} = document;
  const unused = Math.max(0, document.peak_reserved_bytes - requested - workspaces);
  const parts: [string, string, string, number][] = CATEGORIES.map(category => {
    const isWorkspace = category === 'workspace';
    const hint = isWorkspace ? 'communication buckets and workspaces of cuBLAS' : '';
    return [category, categoryWords(category), hint, breakdown[category] + (isWorkspace ? workspaces : 0)];
  });
  parts.push(['unused', 'reserved beyond', 'rounding, and cached free blocks', unused]);
  parts.push(['context', 'CUDA context', 'context and kernels, outside PyTorch', document.context_bytes]);
  let sum = 0;
  return parts
    .filter(([, , , bytes]) => bytes > 0)
    .map(([id, label, hint, bytes]) => {
      const from = sum / end;
      sum += bytes;
      return {id, label, hint, bytes, from, to: sum / end};
    });
}

/** Room for a name beside a line, as a share of the bar: names are short. */
function roomOf(names: readonly string[], widthPx: number): number {
  return (nameOf(names).length * 6.5 + 10) / Math.max(widthPx, 1);
}

/** The name at a line. */
export function nameOf(names: readonly string[]): string {
  return names.length > 1 ? `${names[0]} +${names.length - 1}` : names[0];
}

/** Lines that are nearer to each other, as a share of the bar, are one. */
const NEAR = 0.012;

/**
 * The lines of the cards that end within the bar. Cards that would share a line are one, under the name of the chosen one if it
 * is among them. The chosen one is always labelled, others from the largest down where there is room.
 */
export function cardLines(cards: readonly Card[], chosen: string, end: number, widthPx: number): CardLine[] {
  const lines: {names: string[]; bytes: number}[] = [];
  for (const {name, memory_bytes: bytes} of cards) {
    if (bytes > end) continue;
    const near = lines.find(line => Math.abs(line.bytes - bytes) < end * NEAR);
    if (!near) lines.push({names: [name], bytes});
    else if (name === chosen) Object.assign(near, {names: [name, ...near.names], bytes});
    else near.names.push(name);
  }
  const taken: [number, number][] = [];
  const labels = new Map<object, 'left' | 'right'>();
  const isChosen = (line: {names: string[]}) => line.names[0] === chosen;
  const byRank = lines.toSorted((a, b) => Number(isChosen(b)) - Number(isChosen(a)) || b.bytes - a.bytes);
  for (const line of byRank) {
    const at = line.bytes / end;
    const room = roomOf(line.names, widthPx);
    const isFree = taken.every(([low, high]) => at < low || at - room > high);
    if (at >= room && isFree) {
      labels.set(line, 'left');
      taken.push([at - room, at]);
    } else if (isChosen(line)) {
      labels.set(line, 'right');
      taken.push([at, at + room]);
    }
  }
  return lines.map(line => ({
    ...line,
    at: line.bytes / end,
    isChosen: isChosen(line),
    label: labels.get(line) ?? null,
  }));
}

/** The colour of a part: a category has the viewer's. */
export function colourOf(id: string, shade: Shade): string {
  if (CATEGORIES.includes(id as Category)) return categoryColour(id);
  return id === 'context' ? {light: '#8b939e', dark: '#5d6570'}[shade] : FREE[shade];
}
