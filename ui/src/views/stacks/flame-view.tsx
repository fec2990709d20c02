/** The flame graph of the whole, with the way to the box that is zoomed into, and what is said of the chosen one. */

import {useSignal} from '@preact/signals';
import {useEffect, useMemo, useRef} from 'preact/hooks';
import {FRAME_KINDS, type FrameKind} from '../../draw/frame-colours';
import {useAnswer} from '../../kit/answer';
import {copyText} from '../../kit/copy';
import {openItems, searchOf} from '../../kit/frame-menu';
import {addCommands} from '../../kit/keys';
import {type MenuItem, openMenu} from '../../kit/menu';
import {ProblemCard} from '../../kit/problem';
import {registerPicture} from '../../kit/save';
import {boxOfPath, pathTo, shareOf} from '../../model/flame-layout';
import {fullPlace} from '../../model/frames';
import {counted, percent} from '../../model/units';
import {engine, found, type Opened} from '../../state/session';
import * as store from '../../state/store';
import type {Flame as FlameAnswer} from '../../worker/flame';
import {Flame, type FlameProps, flameKey, shareAt} from './flame';
import type {FlameCanvas} from './flame-canvas';
import {clearOption, flameRequest, numbersOption} from './request';
import {KindLegend} from './toolbar';
import {amountOf, exactAmount, matcherOf, pathWords, subjectOf, Words} from './words';

export function FlameView({device}: {device: Opened}) {
  const answer = useAnswer(device, () => engine().flameGraph(flameRequest()));
  const {value, problem} = answer.value;
  if (problem) return <ProblemCard problem={problem} />;
  if (!value) return <p class="reading">summing up …</p>;
  return <FlameOf device={device} flame={value} />;
}

function FlameOf({device, flame}: {device: Opened; flame: FlameAnswer}) {
  const {layout, unit} = flame;
  const words = useMemo(() => new Words(flame.words), [flame]);
  const canvas = useRef<FlameCanvas | null>(null);
  const chosen = useSignal(-1);
  const zoomed = boxOfPath(layout, numbersOption('stacks.zoom'));
  useEffect(() => {
    chosen.value = -1;
  }, [layout]);
  const zoom = (box: number) => {
    if (box === 0) clearOption('stacks.zoom');
    else store.setViewOption('stacks.zoom', keysTo(flame, box).join('.'));
  };
  const {of, isInverted} = flameRequest();
  const hidden = flameRequest().without.length;
  const subject = subjectOf(flame, of, device.peakEntry);
  const props: FlameProps = {
    layout,
    words,
    unit,
    grows: 'down',
    rootLabel: 'all',
    label: `Flame graph of what is ${subject}`,
    highlights: true,
    zoomed,
    chosen: Math.min(chosen.value, layout.parent.length - 1),
    onChoose: box => (chosen.value = box),
    onZoom: zoom,
    onMenu: (box, place) =>
      openMenu(place, words.of(layout.key[box])?.label ?? 'all', boxItems(flame, words, box, zoom)),
    onReady: made => {
      canvas.current = made;
    },
  };
  useFlameKeys(props, box => canvas.current?.placeOf(box));
  useEffect(
    () => registerPicture(() => ({canvas: canvas.current!.canvas, name: 'flame', svg: canvas.current!.toSvg()})),
    [],
  );
  const matches = matcherOf(found.value);
  const share = useMemo(() => (matches ? shareOf(layout, matches) : undefined), [layout, found.value]);
  const kinds = useMemo(() => kindsOf(flame, words), [flame]);
  return (
    <>
      <div class="subject">
        <b title={exactAmount(layout.total[0], unit)}>{amountOf(layout.total[0], unit)}</b> {subject}
        <span class="faint"> in {counted(layout.totalCount[0], 'allocation')}</span>
        {hidden > 0 && (
          <button
            type="button"
            class="chip"
            title="Show all stacks again"
            onClick={() => clearOption('stacks.without')}
          >
            without {counted(hidden, 'frame')} ×
          </button>
        )}
        {share !== undefined && <span class="chip match">matched {percent(share)}</span>}
        <span class="spring" />
        <KindLegend kinds={kinds} />
      </div>
      <Breadcrumbs {...props} isInverted={isInverted} />
      <Flame {...props} />
      <ChosenBox {...props} />
    </>
  );
}

/** What can be done with a box. */
function boxItems({layout}: FlameAnswer, words: Words, box: number, zoom: (box: number) => void): MenuItem[] {
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

function keysTo({layout}: FlameAnswer, box: number): number[] {
  return pathTo(layout, box)
    .slice(1)
    .map(one => layout.key[one]);
}

function kindsOf(flame: FlameAnswer, words: Words): FrameKind[] {
  const present = new Set(Array.from(flame.words.key, key => words.of(key)?.kind));
  return (Object.keys(FRAME_KINDS) as FrameKind[]).filter(kind => present.has(kind));
}

function useFlameKeys(props: FlameProps, placeOf: (box: number) => {x: number; y: number} | undefined): void {
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
                const isInverted = store.viewOption('stacks.order', ['callers', 'inverted']) === 'inverted';
                store.setViewOption('stacks.order', isInverted ? 'callers' : 'inverted');
              },
            },
          ],
        };
      }),
    [],
  );
}

/** Callers shown before the rest is left out. */
const CRUMBS_MAX = 4;

function Breadcrumbs({layout, words, zoomed, onZoom}: FlameProps & {isInverted: boolean}) {
  if (zoomed === 0) return null;
  const path = pathTo(layout, zoomed);
  const shown = path.length > CRUMBS_MAX + 1 ? [path[0], ...path.slice(-CRUMBS_MAX)] : path;
  return (
    <nav class="crumbs" aria-label="Zoomed into">
      {shown.map((box, i) => (
        <span key={box} class="crumb">
          {i > 0 && ' › '}
          {i === 1 && shown.length < path.length && '… › '}
          <button type="button" class="plain site" aria-current={box === zoomed} onClick={() => onZoom(box)}>
            {words.of(layout.key[box])?.label ?? 'all'}
          </button>
        </span>
      ))}
      <span class="spring" />
      <button type="button" class="plain" title="Show everything (0)" onClick={() => onZoom(0)}>
        reset zoom
      </button>
    </nav>
  );
}

/** What is known of the chosen box, as text, and what can be done with it. */
function ChosenBox(props: FlameProps) {
  const {layout, words, unit, chosen, zoomed} = props;
  const box = chosen >= 0 ? chosen : zoomed;
  const line = words.of(layout.key[box]);
  return (
    <div class="chosen-box" role="status">
      <span class="site" title={line?.file ? `${line.file}:${line.line}` : ''}>
        <b>{line?.label ?? 'all'}</b>
      </span>
      <span class="faint">
        {amountOf(layout.total[box], unit)}, {percent(shareAt(layout, box))}, in{' '}
        {counted(layout.totalCount[box], 'allocation')}
      </span>
      <span class="spring" />
      {line && (
        <>
          {line.file && (
            <button
              type="button"
              title="Highlight in every view what passes through this line"
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
      {!line && <span class="faint">click a box to zoom, ? for keys</span>}
    </div>
  );
}
