/** The fields of the form: each sets one option by its name on the command line. */

import type {ComponentChildren} from 'preact';
import {count} from '../model/units';
import {choose} from './answers';
import type {Option} from './document';
import {usualOf, words} from './inputs';
import {nearest, stops} from './scale';

/** What an option is now: the word, or the usual one. */
export function wordOf(name: string): string {
  return words.value[name] ?? usualOf(name);
}

/** A group of fields under a heading. */
export function Group({title, children}: {title: string; children: ComponentChildren}) {
  return (
    <fieldset>
      <legend>{title}</legend>
      {children}
    </fieldset>
  );
}

/** The field of an option, by what it takes. `shown` is where a slider stands if nobody has said. */
export function OptionField({option, shown}: {option: Option; shown?: number | undefined}) {
  const {name, kind, field} = option;
  if (field.slider) return <Slider name={name} label={field.label} ends={field.slider} shown={shown} />;
  if (kind === 'flag') return <Check name={name} label={field.label} />;
  if (kind === 'word') return <Select option={option} />;
  return <NumberField name={name} label={field.label} placeholder={field.none ?? ''} />;
}

interface SliderProps {
  readonly name: string;
  readonly label: string;
  readonly ends: readonly [number, number];
  /** What the answer was worked out for. */
  readonly shown: number | undefined;
}

function Slider({name, label, ends, shown}: SliderProps) {
  const word = wordOf(name) || String(shown ?? '');
  return <LogSlider name={name} label={label} ends={ends} word={word} set={to => choose({[name]: to})} />;
}

interface LogSliderProps {
  readonly name: string;
  readonly label: string;
  readonly ends: readonly [number, number];
  readonly word: string;
  readonly set: (word: string) => void;
  readonly placeholder?: string;
}

/** A logarithmic slider, and a field for any other number. */
export function LogSlider({name, label, ends, word, set, placeholder = ''}: LogSliderProps) {
  const all = stops(...ends);
  const place = nearest(all, Number(word));
  return (
    <div class="slider">
      <label for={`${name}-number`}>{label}</label>
      <input
        type="range"
        aria-label={label}
        aria-valuetext={count(all[place])}
        min={0}
        max={all.length - 1}
        step={1}
        value={place}
        onInput={event => set(String(all[Number(event.currentTarget.value)]))}
      />
      <NumberInput name={name} value={word} set={set} placeholder={placeholder} />
    </div>
  );
}

interface NumberInputProps {
  readonly name: string;
  readonly value: string;
  readonly placeholder?: string;
  readonly set: (word: string) => void;
}

/** Any number, as it is typed: what is none, the answer says. */
export function NumberInput({name, value, placeholder, set}: NumberInputProps) {
  return (
    <input
      id={`${name}-number`}
      type="text"
      inputMode="decimal"
      autocomplete="off"
      value={value}
      placeholder={placeholder}
      onInput={event => set(event.currentTarget.value.trim())}
    />
  );
}

function NumberField({name, label, placeholder}: {name: string; label: string; placeholder: string}) {
  return (
    <label for={`${name}-number`}>
      <span>{label}</span>
      <NumberInput name={name} value={wordOf(name)} placeholder={placeholder} set={to => choose({[name]: to})} />
    </label>
  );
}

function Select({option}: {option: Option}) {
  const {name, choices: all = [], field} = option;
  const word = wordOf(name);
  const help = all.find(one => one.name === word)?.help ?? '';
  return (
    <label title={help.replaceAll('`', '')}>
      <span>{field.label}</span>
      <select id={name} value={word} onChange={event => choose({[name]: event.currentTarget.value})}>
        {field.none !== undefined && <option value="">{field.none}</option>}
        {all.map(one => (
          <option key={one.name} value={one.name}>
            {one.name}
          </option>
        ))}
        {!all.some(one => one.name === word) && word !== '' && <option value={word}>{word}</option>}
      </select>
    </label>
  );
}

function Check({name, label}: {name: string; label: string}) {
  return (
    <label class="check">
      <input
        type="checkbox"
        checked={wordOf(name) === 'true'}
        onChange={event => choose({[name]: String(event.currentTarget.checked)})}
      />
      {label}
    </label>
  );
}

/** Buttons, of which one is on. */
export function Switch({option: {name, choices: all = [], field}}: {option: Option}) {
  const word = wordOf(name);
  return (
    <fieldset class="switch" aria-label={field.label}>
      {all.map(one => (
        <button
          key={one.name}
          type="button"
          class={one.name === word ? 'on' : ''}
          aria-pressed={one.name === word}
          title={one.help}
          onClick={() => choose({[name]: one.name})}
        >
          {one.name}
        </button>
      ))}
    </fieldset>
  );
}
