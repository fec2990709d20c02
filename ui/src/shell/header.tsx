/** The line at the top: files, devices, views, search, theme, help. */

import {batch} from '@preact/signals';
import {FileButton} from '../kit/files';
import {ThemeButton} from '../kit/theme-button';
import {binary, count} from '../model/units';
import {
  addFile,
  dataSource,
  engine,
  files,
  forgetPlace,
  found,
  lookAt,
  opened,
  reveal,
  searchProblem,
  shownEntry,
} from '../state/session';
import * as store from '../state/store';
import {isHelpOpen} from './help';
import {Share} from './share';

export function Header() {
  return (
    <header>
      <b class="brand">highwater</b>
      <FileTabs />
      <DeviceChoice />
      <ViewTabs />
      <span class="spring" />
      <Search />
      <Share />
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

/** More files than these are listed, not shown side by side. */
const TABS_MAX = 6;

function FileTabs() {
  const all = files.value;
  return (
    <nav class="files" aria-label="Files">
      {all.length > TABS_MAX ? <FileSelect /> : all.map(file => <FileTab key={file.id} {...file} />)}
      {dataSource().isServed && (
        <FileButton
          class="plain"
          title="Open another snapshot, or drop one on the page"
          label="Open a snapshot"
          open={file => void addFile(file)}
        >
          +
        </FileButton>
      )}
    </nav>
  );
}

function FileTab({id, name, state}: {id: number; name: string; state: string}) {
  const isOpen = id === store.file.value;
  return (
    <button
      type="button"
      class={isOpen ? 'tab open' : 'tab'}
      aria-current={isOpen}
      title={name}
      onClick={() => lookAt(id)}
    >
      {state === 'reading' && '… '}
      {state === 'failed' && '⚠ '}
      {name.replace(/\.pickle(\.gz|\.zst)?$/, '')}
    </button>
  );
}

function FileSelect() {
  return (
    <select aria-label="File" value={store.file.value} onChange={event => lookAt(Number(event.currentTarget.value))}>
      {files.value.map(({id, name}) => (
        <option key={id} value={id}>
          {name}
        </option>
      ))}
    </select>
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

/** How many files a view is of. */
const NEEDS_FILES: Partial<Record<store.ViewId, number>> = {compare: 2, ranks: 3};

function ViewTabs() {
  const hasReserved = (opened.value?.reservedMaxBytes ?? 1) > 0;
  const views = store.VIEWS.filter(({id}) => {
    const needed = NEEDS_FILES[id];
    if (needed !== undefined) return dataSource().isServed && files.value.length >= needed;
    return id === 'what-if'
      ? hasReserved && opened.value?.manifest.what_if !== undefined
      : hasReserved || !NEEDS_RESERVED.includes(id);
  });
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
