/** What flame graphs have in common, in whatever order their boxes lie: keys, menus, and what is said of the chosen box. */

import {useEffect, useRef} from 'preact/hooks';
import {FRAME_KINDS, type FrameKind} from '../../draw/frame-colours';
import {copyText} from '../../kit/copy';
import {openItems, searchOf} from '../../kit/frame-menu';
import {addCommands} from '../../kit/keys';
import type {MenuItem} from '../../kit/menu';
import {type FlameLayout, weightOf} from '../../model/flame-layout';
import {fullPlace} from '../../model/frames';
import {counted, percent} from '../../model/units';
import * as store from '../../state/store';
import type {KeyWords} from '../../worker/flame';
import {type FlameProps, flameKey, shareAt} from './flame';
import {clearOption, flameRequest, ORDERS} from './request';
import {amountOf, pathWords, type Words} from './words';

/** What can be done with a box. */
export function boxItems(
  {layout}: {layout: FlameLayout},
  words: Words,
  box: number,
  zoom: (box: number) => void,
): MenuItem[] {
  const key = layout.key[box];
  const line = words.of(key);
  if (!line || box === 0) return [{words: 'Show everything', run: () => zoom(0)}];
  return [
    {words: 'Focus on it', run: () => zoom(box)},
    {words: 'Hide all stacks through it', run: () => hide(key)},
    {words: 'Callers and callees', run: () => showCallers(key)},
    ...openItems(line),
    {words: 'Copy name', run: () => void copyText(line.name)},
    ...(line.file ? [{words: 'Copy path and line', run: () => void copyText(fullPlace(line))}] : []),
    {words: 'Copy stack', run: () => void copyText(pathWords(layout, box, words).join('\n'))},
    {words: 'Search for it', run: () => (store.query.value = searchOf(fullPlace(line) || line.name))},
  ];
}

function hide(key: number): void {
  const keys = [...new Set([...flameRequest().without, key])];
  store.setViewOption('stacks.without', keys.join('.'));
}

function showCallers(key: number): void {
  store.setViewOption('stacks.frame', String(key));
  store.setViewOption('stacks.show', 'table');
}

/** Whose code there is, in the order of the legend. */
export function kindsOf(flame: {words: KeyWords}, words: Words): FrameKind[] {
  const present = new Set(Array.from(flame.words.key, key => words.of(key)?.kind));
  return (Object.keys(FRAME_KINDS) as FrameKind[]).filter(kind => present.has(kind));
}

/** Adds the keys of a flame graph for as long as it is there. */
export function useFlameKeys(props: FlameProps, placeOf: (box: number) => {x: number; y: number} | undefined): void {
  const newest = useRef(props);
  newest.current = props;
  useEffect(
    () =>
      addCommands(() => {
        const press = (key: string) => () => void flameKey(newest.current, key);
        const isZoomed = newest.current.zoomed !== 0;
        return {
          title: 'Flame graph',
          gestures: [
            {hands: 'wheel', help: 'move up and down'},
            {hands: 'click', help: 'zoom into a box'},
            {hands: 'double click', help: 'show everything'},
            {hands: 'right click', help: 'copy, search, hide, open'},
          ],
          commands: [
            {keys: ['ArrowUp'], help: 'to the caller', run: press('ArrowUp')},
            {keys: ['ArrowDown'], help: 'to the heaviest callee', run: press('ArrowDown')},
            {keys: ['ArrowLeft'], help: 'to the box at the left', run: press('ArrowLeft')},
            {keys: ['ArrowRight'], help: 'to the box at the right', run: press('ArrowRight')},
            {keys: ['Enter'], help: 'zoom into the box', run: press('Enter')},
            {
              keys: ['ContextMenu'],
              help: 'menu of the box: copy, hide, open',
              run: () => {
                const {chosen, zoomed, onMenu} = newest.current;
                const box = chosen >= 0 ? chosen : zoomed;
                const place = placeOf(box);
                if (place) onMenu?.(box, place);
              },
            },
            {keys: isZoomed ? ['0', 'Escape'] : ['0'], help: 'show everything', run: press('0')},
            {
              keys: ['i'],
              help: 'inverted, or not',
              run: () => {
                const isInverted = store.viewOption('stacks.order', ORDERS) === 'inverted';
                store.setViewOption('stacks.order', isInverted ? 'callers' : 'inverted');
              },
            },
          ],
        };
      }),
    [],
  );
}

/** Says that stacks are hidden, and shows them again. */
export function HiddenStacks() {
  const hidden = flameRequest().without.length;
  if (hidden === 0) return null;
  return (
    <button type="button" class="chip" title="Show all stacks again" onClick={() => clearOption('stacks.without')}>
      without {counted(hidden, 'frame')} ×
    </button>
  );
}

/** What is known of the chosen box, as text, and what can be done with it. */
export function ChosenBox(props: FlameProps) {
  const {layout, words, unit, chosen, zoomed} = props;
  const box = chosen >= 0 ? chosen : zoomed;
  const line = words.of(layout.key[box]);
  return (
    <div class="chosen-box" role="status">
      <span class="site" title={line?.file ? `${line.file}:${line.line}` : ''}>
        <b>{line?.label ?? 'all'}</b>
      </span>
      <span class="faint">
        {amountOf(weightOf(layout, box), unit)}, {percent(shareAt(layout, box))}, in{' '}
        {counted(layout.totalCount[box], 'allocation')}
      </span>
      <span class="spring" />
      {line && (
        <>
          {line.file && (
            <button
              type="button"
              title="Highlight the allocations through this line in every view"
              onClick={() => (store.query.value = `"${line.file}:${line.line}"`)}
            >
              show these allocations
            </button>
          )}
          <button type="button" onClick={() => showCallers(layout.key[box])}>
            callers and callees
          </button>
          <button
            type="button"
            title="Copy this stack"
            onClick={() => copyText(pathWords(layout, box, words).join('\n'))}
          >
            copy stack
          </button>
        </>
      )}
      {!line && <span class="faint hint">click a box to zoom, ? for keys</span>}
    </div>
  );
}
