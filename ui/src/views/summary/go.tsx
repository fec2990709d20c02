/** Going to the places that the report speaks of. */

import {batch} from '@preact/signals';
import {opened} from '../../state/session';
import * as store from '../../state/store';
import type {Place} from './report';

/** Where a button leads: a place of the report, or the report itself. */
export type Destination = Omit<Place, 'view'> & {view: store.ViewId};

/** Whether the simulator can be asked about the file: by the program behind the page, or in the page. */
export function canAskWhatIf(): boolean {
  return (opened.value?.reservedMaxBytes ?? 0) > 0 && opened.value?.manifest.what_if !== undefined;
}

/** Opens a view at a place. */
export function goTo({view, cursor, selection, query, conf}: Destination): void {
  batch(() => {
    if (cursor !== undefined) store.cursor.value = cursor;
    if (selection) {
      store.selection.value = selection;
      showStretch(selection);
      if (view === 'stacks') store.setViewOption('stacks.of', 'kept');
    } else if (cursor !== undefined) showEntry(cursor);
    if (query !== undefined) store.query.value = query;
    if (conf !== undefined) store.setViewOption('what-if.conf', conf);
    store.view.value = view;
  });
}

/** Makes a stretch of entries visible, with a margin; over time, everything is. */
function showStretch({from, to}: {from: number; to: number}): void {
  if (store.axis.value !== 'entry') store.xRange.value = null;
  else {
    const margin = Math.max(5, (to - from) * 0.1);
    const end = opened.peek()?.entries ?? to;
    store.xRange.value = {from: Math.max(0, from - margin), to: Math.min(to + margin, end)};
  }
}

/** Shows everything if the entry is out of view. */
function showEntry(entry: number): void {
  const visible = store.xRange.value;
  if (visible && (store.axis.value !== 'entry' || entry < visible.from || entry > visible.to))
    store.xRange.value = null;
}

export function PlaceButtons({places}: {places: Place[]}) {
  return (
    <>
      {places.map(place => (
        <button key={place.words} type="button" onClick={() => goTo(place)}>
          {place.words}
        </button>
      ))}
    </>
  );
}

/** A number of an entry that goes there. */
export function EntryLink({entry, words}: {entry: number; words: string}) {
  return (
    <button
      type="button"
      class="plain inline"
      title="Show it in the timeline"
      onClick={() => goTo({words, view: 'timeline', cursor: entry})}
    >
      {words}
    </button>
  );
}
