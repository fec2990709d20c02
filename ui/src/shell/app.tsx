/** The page: header, the view that is chosen, the panel beside it, and what is said over all of them. */

import {useEffect} from 'preact/hooks';
import {notice} from '../kit/copy';
import {DropPage} from '../kit/files';
import {EditorDialog} from '../kit/frame-menu';
import {addCommands, type CommandGroup} from '../kit/keys';
import {ContextMenu} from '../kit/menu';
import {ProblemCard} from '../kit/problem';
import {asSentence} from '../kit/prose';
import {count} from '../model/units';
import {addFile, files, opened, problem} from '../state/session';
import * as store from '../state/store';
import {views} from '../state/views';
import {CompareView} from '../views/compare/view';
import {RanksView} from '../views/ranks/view';
import {SegmentsView} from '../views/segments/view';
import {StacksView} from '../views/stacks/view';
import {StateView} from '../views/state/view';
import {SummaryView} from '../views/summary/view';
import {TimelineView} from '../views/timeline/view';
import {WhatIfView} from '../views/what-if/view';
import {Header} from './header';
import {HelpCard, isHelpOpen} from './help';
import {stepMatch} from './search-box';
import {Sidebar} from './sidebar';
import {VerdictBar} from './verdict-bar';

const VIEW_PARTS = {
  timeline: TimelineView,
  state: StateView,
  segments: SegmentsView,
  stacks: StacksView,
  summary: SummaryView,
  'what-if': WhatIfView,
  compare: CompareView,
  ranks: RanksView,
} as const;

/** Views that have their own use for the whole width. */
const WITHOUT_SIDEBAR: readonly store.ViewId[] = ['summary', 'what-if', 'compare', 'ranks'];

function hasSidebar(): boolean {
  return !WITHOUT_SIDEBAR.includes(store.view.value) && store.viewOption('panel', ['shown', 'hidden']) === 'shown';
}

function toggleSidebar(): void {
  store.setViewOption('panel', store.viewOption('panel', ['shown', 'hidden']) === 'shown' ? 'hidden' : '');
}

export function App() {
  useEffect(() => addCommands(general), []);
  useEffect(() => {
    document.documentElement.dataset.theme = store.shade.value;
  }, [store.shade.value]);
  const device = opened.value;
  const View = VIEW_PARTS[store.view.value];
  return (
    <DropPage open={file => void addFile(file)}>
      <Header />
      <Banners />
      {problem.value && <ProblemCard problem={problem.value} />}
      {device && store.view.value === 'timeline' && <VerdictBar key={device.generation} device={device} />}
      {device ? (
        <main>
          <View key={device.generation} device={device} />
          {hasSidebar() && <Sidebar device={device} />}
        </main>
      ) : (
        !problem.value && <Reading />
      )}
      <HelpCard />
      <ContextMenu />
      <EditorDialog />
      <div class="notice" role="status">
        {notice.value}
      </div>
    </DropPage>
  );
}

function Reading() {
  const name = files.value.find(({id}) => id === store.file.value)?.name;
  return <p class="reading">{name ? `reading ${name} …` : 'reading …'}</p>;
}

/** What has to be known of the data before they are believed. */
function Banners() {
  const shown = opened.value;
  if (!shown) return null;
  const {manifest, device} = shown;
  const lines: string[] = [];
  const {left_out: leftOut} = manifest;
  if (leftOut) {
    lines.push(
      `this page leaves out ${count(leftOut.allocations)} allocations below ${count(leftOut.below_bytes)} bytes ` +
        `(${count(leftOut.bytes)} bytes in all)`,
    );
  }
  if (device.recorded.reason) lines.push(device.recorded.reason);
  if (device.knowledge !== 'exact' && device.reason) lines.push(device.reason);
  if (device.marks_left_out)
    lines.push(`${count(device.marks_left_out)} marks are not shown, because there are too many`);
  if (device.scopes_left_out)
    lines.push(`${count(device.scopes_left_out)} inner scopes are not shown, because there are too many`);
  const file = files.value.find(({id}) => id === store.file.value);
  if (file?.changed_on_disk)
    lines.push('the file has changed on disk since it was read: open it again to see the changes');
  return (
    <>
      {lines.map(line => (
        <p key={line} class="banner" role="note">
          {asSentence(line)}
        </p>
      ))}
    </>
  );
}

function general(): CommandGroup {
  const toViews = views.value.map(({id, title, key}) => ({
    keys: [key],
    help: title,
    run: () => {
      store.view.value = id;
    },
  }));
  return {
    title: 'Everywhere',
    commands: [
      ...toViews,
      {keys: ['q'], help: 'hide or show the panel', run: toggleSidebar},
      {keys: ['/'], help: 'search', run: () => document.getElementById('search')?.focus()},
      {keys: ['n'], help: 'next match', run: () => void stepMatch(1)},
      {keys: ['N'], help: 'previous match', run: () => void stepMatch(-1)},
      {keys: ['Escape'], help: 'clear the pin, selection, cursor or search, one at a time', run: letGo},
      {
        keys: ['?'],
        help: 'show this help',
        run: () => {
          isHelpOpen.value = true;
        },
      },
    ],
  };
}

/** Lets go of one thing at a time, the nearest first. */
function letGo(): void {
  if (isHelpOpen.value) isHelpOpen.value = false;
  else if (store.pinned.value !== null) store.pinned.value = null;
  else if (store.selection.value) store.selection.value = null;
  else if (store.cursor.value !== null) store.cursor.value = null;
  else store.query.value = '';
}
