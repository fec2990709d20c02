/** The line at the top: files, devices, views, search, theme, help. */

import {useEffect, useRef} from 'preact/hooks';
import {ThemeButton} from '../kit/theme-button';
import {count} from '../model/units';
import {dataSource, forgetPlace, opened} from '../state/session';
import * as store from '../state/store';
import {views} from '../state/views';
import {FileTabs} from './file-tabs';
import {isHelpOpen} from './help';
import {SearchBox} from './search-box';
import {Share} from './share';

export function Header() {
  return (
    <header>
      <b class="brand">highwater</b>
      <FileTabs />
      <DeviceChoice />
      <ViewTabs />
      <span class="tools">
        <SearchBox />
        <Share />
        {dataSource().isServed && (
          <a
            class="tab"
            href="calculator.html"
            target="_blank"
            title="Estimate the memory of a model before you run it"
            rel="noopener"
          >
            Calculator
          </a>
        )}
        <ThemeButton />
        <button
          type="button"
          class="plain"
          title="Help (?)"
          aria-label="Help"
          onClick={() => (isHelpOpen.value = true)}
        >
          ?
        </button>
      </span>
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

function ViewTabs() {
  const host = useRef<HTMLDivElement>(null);
  // In a narrow window the row scrolls.
  useEffect(() => {
    host.current?.querySelector('[aria-selected=true]')?.scrollIntoView({block: 'nearest', inline: 'nearest'});
  }, [store.view.value, views.value.length]);
  return (
    <div ref={host} class="views" role="tablist" aria-label="Views">
      {views.value.map(({id, title, hint, key}) => (
        <button
          key={id}
          type="button"
          role="tab"
          class={store.view.value === id ? 'tab open' : 'tab'}
          aria-selected={store.view.value === id}
          title={`${hint} (${key})`}
          onClick={() => (store.view.value = id)}
        >
          {title}
        </button>
      ))}
    </div>
  );
}
