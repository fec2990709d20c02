/** What can be done with an allocation, and with a line of a legend. */

import {fullFrame, fullPlace, placeOfWords} from '../model/frames';
import type {Grouping} from '../model/groups';
import {address, binary} from '../model/units';
import {engine} from '../state/session';
import type {RowDetails} from '../worker/details';
import {interesting} from './allocation';
import {copyText} from './copy';
import {openItems, searchItems, searchOf} from './frame-menu';
import {type MenuItem, openMenu} from './menu';

/** `pin` is left out where it is pinned already. */
function allocationItems(details: RowDetails, pin?: () => void): MenuItem[] {
  const {frames, site, name} = details;
  const own = interesting(frames).at(0);
  return [
    ...(pin ? [{words: 'Pin it', run: pin}] : []),
    ...(own ? openItems(own) : []),
    {words: 'Copy name', run: () => void copyText(name)},
    {words: 'Copy address', run: () => void copyText(address(details.address))},
    {
      words: 'Copy stack',
      run: () => void copyText(frames.length > 0 ? frames.map(fullFrame).join('\n') : site),
    },
    ...searchItems(searchOf((own && fullPlace(own)) || site)),
  ];
}

/** Opens the menu of an allocation, as it is after an entry. */
export async function openAllocationMenu(row: number, entry: number, place: {x: number; y: number}, pin?: () => void) {
  try {
    const details = await engine().describe(row, entry);
    openMenu(place, `${binary(details.sizeBytes)} · ${details.site}`, allocationItems(details, pin));
  } catch {
    // Another file was opened meanwhile.
  }
}

/** The menu of a line of a legend. */
export function legendItems(by: Grouping, label: string): MenuItem[] {
  const query = queryOfGroup(by, label);
  return [{words: 'Copy name', run: () => void copyText(label)}, ...(query ? searchItems(query) : [])];
}

/** The search that finds a group; `undefined` where none does. */
function queryOfGroup(by: Grouping, label: string): string | undefined {
  switch (by) {
    case 'site':
    case 'stack':
      return searchOf(placeOfWords(label));
    case 'category':
    case 'pool':
      return `${by}:${searchOf(label)}`;
    case 'stream':
      return `stream:${label.replace(/^stream /, '')}`;
    case 'size':
      return undefined;
  }
}
