/** The search: its box, what is wrong with a query, and the list of what it found. */

import {batch, useSignal, useSignalEffect} from '@preact/signals';
import {EXAMPLES} from '../model/search-query';
import {binary, count} from '../model/units';
import {engine, found, opened, reveal, searchGeneration, searchProblem, shownEntry} from '../state/session';
import * as store from '../state/store';
import type {Hit} from '../worker/search';

/** Pins the next lifetime that the search found. */
export async function stepMatch(step: 1 | -1): Promise<void> {
  const row = await engine().nextMatch(store.pinned.value ?? undefined, shownEntry.value, step);
  if (row !== undefined) await goTo(row);
}

async function goTo(row: number): Promise<void> {
  const details = await engine().describe(row, shownEntry.value);
  batch(() => {
    store.pinned.value = row;
    reveal(details.at.entry);
  });
}

export function SearchBox() {
  const isOpen = useSignal(false);
  const number = useMatchNumber();
  const all = found.value;
  const problem = searchProblem.value;
  return (
    <search
      onFocusIn={() => (isOpen.value = true)}
      onFocusOut={event => {
        const next = event.relatedTarget as Node | null;
        if (!next || !event.currentTarget.contains(next)) isOpen.value = false;
      }}
      onKeyDown={event => {
        const step = {ArrowDown: 1, ArrowUp: -1}[event.key];
        if (step && moveFocus(event.currentTarget, step)) event.preventDefault();
        if (event.key !== 'Escape') return;
        event.stopPropagation();
        store.query.value = '';
        (document.activeElement as HTMLElement | null)?.blur();
      }}
    >
      <input
        type="search"
        id="search"
        placeholder="Search  /"
        aria-label="Search stacks, addresses, sizes and lifetimes"
        aria-invalid={problem !== null}
        aria-describedby="search-said"
        value={store.query.value}
        onInput={event => (store.query.value = event.currentTarget.value)}
        onKeyDown={event => {
          if (event.key === 'Enter') void stepMatch(event.shiftKey ? -1 : 1);
        }}
      />
      <span id="search-said" class={problem ? 'hits problem' : 'hits'} role="status" title={problem?.hint}>
        {problem && (isOpen.value && problem.hint ? `${problem.message}: ${problem.hint}` : problem.message)}
        {all &&
          (number.value === undefined
            ? `${count(all.count)} found, ${binary(all.bytes)} in all`
            : `${count(number.value)} of ${count(all.count)}, ${binary(all.bytes)} in all`)}
      </span>
      {isOpen.value && store.query.value.trim() === '' && <Examples />}
      {isOpen.value && all && all.count > 0 && <Hits number={number.value} count={all.count} />}
    </search>
  );
}

/** Which of the matches is pinned; `undefined` if none is. */
function useMatchNumber() {
  const number = useSignal<number | undefined>(undefined);
  useSignalEffect(() => {
    void searchGeneration.value;
    const row = store.pinned.value;
    let isStale = false;
    if (row === null || !found.value || !opened.value) number.value = undefined;
    else {
      const settle = (value: number | undefined) => {
        if (!isStale) number.value = value;
      };
      engine()
        .matchNumber(row)
        .then(settle, () => settle(undefined));
    }
    return () => {
      isStale = true;
    };
  });
  return number;
}

/** From the box into the list under it, and along it. */
function moveFocus(search: HTMLElement, step: number): boolean {
  const places = [...search.querySelectorAll<HTMLElement>('input, .found button')];
  const next = places[places.indexOf(document.activeElement as HTMLElement) + step];
  next?.focus();
  return next !== undefined;
}

function Examples() {
  return (
    <div class="found">
      <table aria-label="Examples of searches">
        <tbody>
          {EXAMPLES.map(({words, help}) => (
            <tr key={words}>
              <td>
                <button type="button" class="plain site" onClick={() => (store.query.value = words)}>
                  <code>{words}</code>
                </button>
              </td>
              <td class="faint">{help}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** So many hits are listed at once. */
const HITS_MAX = 100;
/** So many are listed before the one that is pinned. */
const BEFORE = 5;

function Hits({number, count: all}: {number: number | undefined; count: number}) {
  const skipped = useSignal(Math.max(0, (number ?? 1) - 1 - BEFORE));
  const shown = useSignal<Hit[]>([]);
  useSignalEffect(() => {
    void searchGeneration.value;
    const from = skipped.value;
    engine()
      .hits(from, HITS_MAX)
      .then(
        list => {
          if (skipped.value !== from) return;
          // Of a search that found fewer than were skipped.
          if (list.length === 0 && from > 0) skipped.value = 0;
          else shown.value = list;
        },
        () => {
          shown.value = [];
        },
      );
  });
  const later = all - skipped.value - shown.value.length;
  return (
    <ol class="found" aria-label="Search results" start={skipped.value + 1}>
      {skipped.value > 0 && (
        <Page
          words={`${count(skipped.value)} before`}
          go={() => (skipped.value = Math.max(0, skipped.value - HITS_MAX))}
        />
      )}
      {shown.value.map(hit => (
        <li key={hit.row}>
          <button
            type="button"
            class="plain"
            aria-current={store.pinned.value === hit.row}
            title={hit.site}
            onClick={() => void goTo(hit.row)}
          >
            <span>{binary(hit.sizeBytes)}</span>
            <span>{hit.site}</span>
            <span class="faint">{hit.entry === undefined ? 'before' : `entry ${count(hit.entry)}`}</span>
          </button>
        </li>
      ))}
      {later > 0 && shown.value.length > 0 && (
        <Page words={`${count(later)} after`} go={() => (skipped.value += HITS_MAX)} />
      )}
    </ol>
  );
}

function Page({words, go}: {words: string; go(): void}) {
  return (
    <li class="page-of-hits">
      <button type="button" class="plain" onClick={go}>
        {words}
      </button>
    </li>
  );
}
