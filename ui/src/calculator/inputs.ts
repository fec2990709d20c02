/**
 * What is asked, as signals. Every option is a word under the name that it has on the command line; what is as usual is not
 * there. The module says what is usual, and what a word means.
 */

import {signal} from '@preact/signals';
import type {Option} from './document';

/** A model: of the catalogue, of files that somebody gave, or of files that an address was too short for. */
export type Model = {named: string} | {described: string; from: string} | {lost: string};

export type Words = Readonly<Record<string, string>>;

/** A question about serving: the engine with its release, and its flags. */
export interface Serving {
  readonly engine: string;
  readonly flags: Words;
}

export const model = signal<Model>({named: 'qwen2.5-1.5b'});
export const words = signal<Words>({});
/** Set while the question is about serving. */
export const serving = signal<Serving | null>(null);

/** The program's table of options; empty until the module has said it. */
export const options = signal<readonly Option[]>([]);

function optionOf(name: string): Option | undefined {
  return options.value.find(option => option.name === name);
}

/** What an option is if nobody says. */
export function usualOf(name: string): string {
  return optionOf(name)?.usual ?? '';
}

/** The words that count. */
export function effective(all: Words): Words {
  return Object.fromEntries(
    Object.entries(all).filter(([name]) => {
      const needs = optionOf(name)?.needs;
      return needs === undefined || needs in all;
    }),
  );
}

/** Sets options; what is as usual, or empty, is not kept. */
export function withWords(all: Words, changes: Words): Words {
  const merged = Object.entries({...all, ...changes});
  return Object.fromEntries(merged.filter(([name, word]) => word !== '' && word !== usualOf(name)));
}

/** The request as the module takes it. */
export function requestOf(of: Model, all: Words, isToFit: boolean): string {
  return withModel(of, {...effective(all), ...(isToFit ? {fit: true} : {})});
}

/** The question about serving as the module takes it; `lengths` are those of the curve. */
export function questionOf(of: Model, all: Words, {engine, flags}: Serving, lengths: readonly number[]): string {
  return withModel(of, {...flags, ...gpuOf(all), serve: engine, lengths});
}

function gpuOf({gpu}: Words): Words {
  return gpu === undefined ? {} : {gpu};
}

/** What a file said stays the text that it was. */
function withModel(of: Model, all: object): string {
  const described = 'described' in of ? of.described : JSON.stringify('named' in of ? of.named : null);
  const options = JSON.stringify(all);
  return options === '{}' ? `{"model":${described}}` : `{"model":${described},${options.slice(1)}`;
}

/** The same on the command line. */
export function commandOf(of: Model, all: Words, asked: Serving | null = null): string {
  const name = 'named' in of ? of.named : 'from' in of ? of.from : of.lost;
  if (asked) {
    const flags = Object.entries({serve: asked.engine, ...gpuOf(all), ...asked.flags}).map(([flag, word]) =>
      word === 'true' ? `--${flag}` : `--${flag} ${quoted(word)}`,
    );
    return ['highwater estimate', quoted(name), ...flags].join(' ');
  }
  const options = Object.entries(effective(all)).map(([option, word]) =>
    optionOf(option)?.kind === 'flag' ? `--${option}` : `--${option} ${quoted(word)}`,
  );
  return ['highwater estimate', quoted(name), ...options].join(' ');
}

/** A word as a shell takes it. */
function quoted(word: string): string {
  return /^[\w./:@%+=-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}
