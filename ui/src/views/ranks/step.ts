/** Shift and an arrow step through the files, in every view. */

import {addCommands} from '../../kit/keys';
import * as store from '../../state/store';
import {look, tabs} from '../../state/tabs';
import {fileAfter} from './overview';

function step(by: 1 | -1): void {
  look(fileAfter(tabs.value, store.file.value, by));
}

/** Listens. Gives what ends it. */
export function listenToSteps(): () => void {
  const onKey = (event: KeyboardEvent) => {
    const by = event.key === 'ArrowRight' ? 1 : event.key === 'ArrowLeft' ? -1 : undefined;
    if (!by || !event.shiftKey || event.ctrlKey || event.metaKey || event.altKey || tabs.value.length < 2) return;
    const target = event.target as HTMLElement | null;
    if (target?.closest('input, textarea, select, [contenteditable]')) return;
    // The arrow alone moves in the picture.
    event.preventDefault();
    event.stopImmediatePropagation();
    step(by);
  };
  addEventListener('keydown', onKey, {capture: true});
  const removeCommands = addCommands(() => ({
    title: 'Files',
    commands:
      tabs.value.length < 2 ? [] : [{keys: ['Shift ←', 'Shift →'], help: 'previous and next file', run: () => step(1)}],
  }));
  return () => {
    removeEventListener('keydown', onKey, {capture: true});
    removeCommands();
  };
}
