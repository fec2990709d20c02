/** What boxes and rows say: names of frames, amounts in the unit that was weighed. */

import {type FrameKind, frameColour, kindOf} from '../../draw/frame-colours';
import type {Shade} from '../../draw/palette';
import type {FlameLayout} from '../../model/flame-layout';
import {frameLabel} from '../../model/frames';
import {binary, count} from '../../model/units';
import type {KeyWords, Weighed, WeightUnit} from '../../worker/flame';
import type {Found} from '../../worker/search';

/** What is known of one key. */
export interface KeyLine {
  readonly name: string;
  readonly file: string;
  readonly line: number;
  readonly kind: FrameKind;
  /** Name and place in a line. */
  readonly label: string;
}

/** The words of all keys. */
export class Words {
  private readonly lines = new Map<number, KeyLine>();

  constructor(words: KeyWords) {
    words.key.forEach((key, i) => {
      const [name, file] = [legible(words.name[i]), legible(words.file[i])];
      const [line, owner] = [words.line[i], words.owner[i]];
      const label = file ? frameLabel({name, file, line}) : name;
      this.lines.set(key, {name, file, line, kind: kindOf(owner, file), label});
    });
  }

  /** `undefined` for the root. */
  of(key: number): KeyLine | undefined {
    return this.lines.get(key);
  }

  colours(shade: Shade): (key: number) => string {
    const made = new Map<number, string>();
    return key => {
      let colour = made.get(key);
      if (!colour) {
        const line = this.of(key);
        colour = frameColour(line?.kind ?? 'none', line ? `${line.name}${line.file}` : '', shade);
        made.set(key, colour);
      }
      return colour;
    };
  }
}

/** Which keys a search is about; undefined where it says nothing of stacks. */
export function matcherOf(found: Found | undefined): ((key: number) => boolean) | undefined {
  const sites = found?.sites;
  return sites && (key => sites[key] === 1);
}

/** Without signs that turn the direction of what follows, or break the line. */
function legible(text: string): string {
  return text.replace(/[\p{Cc}\p{Bidi_Control}]/gu, '\ufffd');
}

/** An amount as it is shown. */
export function amountOf(weight: number, unit: WeightUnit): string {
  const rounded = Math.round(weight);
  switch (unit) {
    case 'bytes':
      return binary(rounded);
    case 'byte-entries':
      return `${binary(rounded)}·entries`;
    case 'byte-seconds':
      return `${binary(rounded)}·s`;
  }
}

/** An amount with every digit. */
export function exactAmount(weight: number, unit: WeightUnit): string {
  const words = {bytes: 'bytes', 'byte-entries': 'byte·entries', 'byte-seconds': 'byte·seconds'}[unit];
  return `${count(Math.round(weight))} ${words}`;
}

/** What was weighed, in words. */
export function subjectOf(weighed: Weighed, of: string, peakEntry: number): string {
  const {from, to} = weighed.stretch;
  const stretch = `entries ${count(from)} to ${count(to - 1)}`;
  switch (of) {
    case 'live':
      return weighed.entry === peakEntry
        ? `active at the peak, after entry ${count(peakEntry)}`
        : `active after entry ${count(weighed.entry ?? 0)}`;
    case 'highest':
      return `active after entry ${count(weighed.entry ?? 0)}, the highest of ${stretch}`;
    case 'allocated':
      return `allocated in ${stretch}`;
    case 'kept':
      return `allocated in ${stretch} and still active after them`;
    default:
      return `bytes × lifetime in ${stretch}`;
  }
}

/** The path from a child of the root to a box, in words, outermost first. */
export function pathWords(layout: FlameLayout, box: number, words: Words): string[] {
  const path: string[] = [];
  for (let at = box; at !== 0; at = layout.parent[at]) path.unshift(words.of(layout.key[at])?.label ?? '?');
  return path;
}
