/** The line at the top: files, devices, views, search, theme, help. */

import {FileButton} from '../kit/files';
import {ThemeButton} from '../kit/theme-button';
import {count} from '../model/units';
import {addFile, dataSource, files, forgetPlace, opened} from '../state/session';
import * as store from '../state/store';
import {isHelpOpen} from './help';
import {SearchBox} from './search-box';

export function Header() {
  return (
    <header>
      <b class="brand">highwater</b>
      <FileTabs />
      <DeviceChoice />
      <ViewTabs />
      <span class="spring" />
      <SearchBox />
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

function look(id: number): void {
  if (id === store.file.value) return;
  forgetPlace();
  store.file.value = id;
}

function FileTab({id, name, state}: {id: number; name: string; state: string}) {
  const isOpen = id === store.file.value;
  return (
    <button
      type="button"
      class={isOpen ? 'tab open' : 'tab'}
      aria-current={isOpen}
      title={name}
      onClick={() => look(id)}
    >
      {state === 'reading' && '… '}
      {state === 'failed' && '⚠ '}
      {name.replace(/\.pickle(\.gz|\.zst)?$/, '')}
    </button>
  );
}

function FileSelect() {
  return (
    <select aria-label="File" value={store.file.value} onChange={event => look(Number(event.currentTarget.value))}>
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
