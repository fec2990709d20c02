/** The line at the top: files, devices, views, search, theme, help. */

import {batch} from '@preact/signals';
import {ThemeButton} from '../kit/theme-button';
import {binary, count} from '../model/units';
import {dataSource, engine, forgetPlace, found, opened, reveal, searchProblem, shownEntry} from '../state/session';
import * as store from '../state/store';
import {FileTabs} from './file-tabs';
import {isHelpOpen} from './help';

export function Header() {
  return (
    <header>
      <b class="brand">highwater</b>
      <FileTabs />
      <DeviceChoice />
      <ViewTabs />
      <span class="spring" />
      <Search />
      {dataSource().isServed && (
        <a
          class="tab"
          href="calculator.html"
          target="_blank"
          title="What a model needs, before it is run"
          rel="noopener"
        >
          Calculator
        </a>
      )}
      <ThemeButton />
      <button type="button" class="plain" title="Help (?)" aria-label="Help" onClick={() => (isHelpOpen.value = true)}>
        ?
      </button>
    </header>
  );
}

function DeviceChoice() {
  const devices = opened.value?.manifest.devices ?? [];
  if (devices.length < 2) return null;
  return (
    <select
      aria-label="Device"
      value={opened.value?.device.device}
      onChange={event => {
        const chosen = Number(event.currentTarget.value);
        forgetPlace();
        store.device.value = chosen;
      }}
    >
      {devices.map(({device, entries}) => (
        <option key={device} value={device}>
          device {device} ({count(entries)} entries)
        </option>
      ))}
    </select>
  );
}

/** Views of segments: a profile of `torch.profiler` does not tell of any. */
const NEEDS_RESERVED: readonly store.ViewId[] = ['state', 'segments'];

function ViewTabs() {
  const hasReserved = (opened.value?.reservedMaxBytes ?? 1) > 0;
  const views = store.VIEWS.filter(({id}) =>
    id === 'what-if'
      ? hasReserved && opened.value?.manifest.what_if !== undefined
      : hasReserved || !NEEDS_RESERVED.includes(id),
  );
  return (
    <div class="views" role="tablist" aria-label="Views">
      {views.map(({id, title, hint}) => (
        <button
          key={id}
          type="button"
          role="tab"
          class={store.view.value === id ? 'tab open' : 'tab'}
          aria-selected={store.view.value === id}
          title={`${hint} (${store.VIEWS.findIndex(view => view.id === id) + 1})`}
          onClick={() => (store.view.value = id)}
        >
          {title}
        </button>
      ))}
    </div>
  );
}

/** Pins the next lifetime that the search found. */
export async function stepMatch(step: 1 | -1): Promise<void> {
  const row = await engine().nextMatch(store.pinned.value ?? undefined, shownEntry.value, step);
  if (row === undefined) return;
  const details = await engine().describe(row, shownEntry.value);
  batch(() => {
    store.pinned.value = row;
    reveal(details.at.entry);
  });
}

function Search() {
  const hits = found.value;
  const problem = searchProblem.value;
  return (
    <search>
      <input
        type="search"
        id="search"
        placeholder="Search: stack, 0x…, size>1MiB  ( / )"
        aria-label="Search stacks, addresses and sizes"
        title={'text of a stack, 0x7f… for an address, size:512, size>1MiB, size:1KiB..1MiB, at:ENTRY, unfreed, before'}
        value={store.query.value}
        onInput={event => (store.query.value = event.currentTarget.value)}
        onKeyDown={event => {
          if (event.key === 'Enter') void stepMatch(event.shiftKey ? -1 : 1);
          if (event.key === 'Escape') {
            event.stopPropagation();
            store.query.value = '';
            event.currentTarget.blur();
          }
        }}
      />
      {problem && (
        <span class="hits problem" role="status" title={problem.hint}>
          {problem.message}
        </span>
      )}
      {hits && (
        <span class="hits" role="status">
          {count(hits.count)} found, {binary(hits.bytes)} in all
        </span>
      )}
    </search>
  );
}
