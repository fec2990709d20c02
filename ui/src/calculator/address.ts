/** What is asked, in the page's address after `#`: the options in the words of the command line. */

import type {Theme} from '../state/store';
import type {Model, Serving, Words} from './inputs';

/** A model's description that is longer is not put into the address: browsers and mail programs cut long ones. */
export const LONGEST_DESCRIPTION = 6000;

/** What the names of an engine's flags begin with. */
const FLAG = 'serve.';

/** What an address holds. */
export interface Place {
  /** `null` if it names none. */
  readonly model: Model | null;
  readonly words: Words;
  /** Where the question is about serving. */
  readonly serving?: Serving;
  readonly theme: Theme;
}

/** A place as the text after `#`. */
export function textOf({model, words, serving, theme}: Place): string {
  const all = new URLSearchParams();
  if (model && 'named' in model) all.set('model', model.named);
  else if (model && 'lost' in model) all.set('lost', model.lost);
  else if (model && model.described.length > LONGEST_DESCRIPTION) all.set('lost', model.from);
  else if (model) {
    all.set('file', model.described);
    all.set('from', model.from);
  }
  for (const [name, word] of Object.entries(words)) all.set(name, word);
  if (serving) all.set('serve', serving.engine);
  for (const [name, word] of Object.entries(serving?.flags ?? {})) all.set(FLAG + name, word);
  if (theme !== 'system') all.set('theme', theme);
  return all.toString();
}

/** The place of a text. Options that do not exist stay: the module says so. */
export function placeOf(text: string): Place {
  const all = new URLSearchParams(text.replace(/^#/, ''));
  const take = (name: string) => {
    const value = all.get(name);
    all.delete(name);
    return value;
  };
  const [named, described, from, lost, theme, engine] = ['model', 'file', 'from', 'lost', 'theme', 'serve'].map(take);
  const words = [...all].filter(([name]) => !name.startsWith(FLAG));
  const flags = [...all]
    .filter(([name]) => name.startsWith(FLAG))
    .map(([name, word]) => [name.slice(FLAG.length), word]);
  return {
    model: modelOf(named, described, from, lost),
    words: Object.fromEntries(words),
    ...(engine ? {serving: {engine, flags: Object.fromEntries(flags)}} : {}),
    theme: theme === 'light' || theme === 'dark' ? theme : 'system',
  };
}

function modelOf(
  named: string | null,
  described: string | null,
  from: string | null,
  lost: string | null,
): Model | null {
  if (named) return {named};
  if (described && isObject(described)) return {described, from: from ?? 'config.json'};
  return lost ? {lost} : null;
}

/** Whether a text can stand for a model in a request: anything else would change what is asked. */
function isObject(text: string): boolean {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null;
  } catch {
    return false;
  }
}
