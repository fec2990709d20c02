/** The flame graph of the whole, with the way to the box that is zoomed into, and what is said of the chosen one. */

import {useSignal} from '@preact/signals';
import {useEffect, useMemo, useRef} from 'preact/hooks';
import {useAnswer} from '../../kit/answer';
import {openMenu} from '../../kit/menu';
import {ProblemCard} from '../../kit/problem';
import {registerPicture} from '../../kit/save';
import {boxOfPath, pathTo, shareOf} from '../../model/flame-layout';
import {counted, percent} from '../../model/units';
import {engine, found, type Opened} from '../../state/session';
import * as store from '../../state/store';
import type {Flame as FlameAnswer} from '../../worker/flame';
import {ChartView} from './chart-view';
import {Flame, type FlameProps} from './flame';
import type {FlameCanvas} from './flame-canvas';
import {boxItems, ChosenBox, HiddenStacks, kindsOf, useFlameKeys} from './flame-parts';
import {clearOption, flameRequest, numbersOption, ORDERS} from './request';
import {KindLegend} from './toolbar';
import {amountOf, exactAmount, matcherOf, subjectOf, Words} from './words';

export function FlameView({device}: {device: Opened}) {
  if (store.viewOption('stacks.order', ORDERS) === 'time') return <ChartView device={device} />;
  return <WeighedFlame device={device} />;
}

function WeighedFlame({device}: {device: Opened}) {
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
  const subject = subjectOf(flame, of, device.peakEntry);
  const props: FlameProps = {
    layout,
    words,
    unit,
    grows: 'down',
    rootLabel: 'all',
    label: `Flame graph: ${subject}`,
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
        <HiddenStacks />
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

function keysTo({layout}: FlameAnswer, box: number): number[] {
  return pathTo(layout, box)
    .slice(1)
    .map(one => layout.key[one]);
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
