/** The files: side by side as tabs, or, if there are many, in a list. */

import {FileButton} from '../kit/files';
import {shortNames} from '../model/short-names';
import {addFile, dataSource} from '../state/session';
import * as store from '../state/store';
import {closeTab, look, tabs} from '../state/tabs';

/** More files than these are listed, not shown side by side. */
const TABS_MAX = 6;

export function FileTabs() {
  const all = tabs.value;
  const names = shortNames(all.map(({name}) => name));
  const canBeClosed = all.length > 1;
  return (
    <nav class="files" aria-label="Files">
      {all.length > TABS_MAX ? (
        <FileSelect names={names} />
      ) : (
        all.map((file, i) => <FileTab key={file.id} {...file} short={names[i]} canBeClosed={canBeClosed} />)
      )}
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

interface TabProps {
  id: number;
  name: string;
  state: string;
  short: string;
  canBeClosed: boolean;
}

function FileTab({id, name, state, short, canBeClosed}: TabProps) {
  const isOpen = id === store.file.value;
  return (
    <span class={isOpen ? 'file-tab open' : 'file-tab'}>
      <button
        type="button"
        class={isOpen ? 'tab open' : 'tab'}
        aria-current={isOpen}
        title={name}
        onClick={() => look(id)}
      >
        {state === 'reading' && '… '}
        {state === 'failed' && '⚠ '}
        {short}
      </button>
      {canBeClosed && <CloseButton id={id} name={name} />}
    </span>
  );
}

function CloseButton({id, name}: {id: number; name: string}) {
  return (
    <button
      type="button"
      class="plain close-tab"
      title={`Close ${name} on this page; the program keeps it open`}
      aria-label={`Close ${name}`}
      onClick={() => closeTab(id)}
    >
      ×
    </button>
  );
}

function FileSelect({names}: {names: string[]}) {
  const open = tabs.value.find(({id}) => id === store.file.value);
  return (
    <>
      <select
        aria-label="File"
        title={open?.name}
        value={store.file.value}
        onChange={event => look(Number(event.currentTarget.value))}
      >
        {tabs.value.map(({id, state}, i) => (
          <option key={id} value={id}>
            {state === 'failed' && '⚠ '}
            {names[i]}
          </option>
        ))}
      </select>
      {open && <CloseButton {...open} />}
    </>
  );
}
