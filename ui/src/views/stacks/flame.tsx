/** One flame graph: its canvas, what is said of the box under the pointer, and its keys. */

import {useSignal} from '@preact/signals';
import {useEffect, useRef} from 'preact/hooks';
import {FloatingCard} from '../../kit/floating';
import {type FlameLayout, weightOf} from '../../model/flame-layout';
import {ROOT_KEY} from '../../model/flame-tree';
import {counted, percent} from '../../model/units';
import {found} from '../../state/session';
import * as store from '../../state/store';
import type {WeightUnit} from '../../worker/flame';
import {pinchFactor} from '../stacked/gestures';
import {FlameCanvas, neighbour} from './flame-canvas';
import {amountOf, exactAmount, matcherOf, type Words} from './words';

/** A box, and what was done with it. */
export interface FlameProps {
  readonly layout: FlameLayout;
  readonly words: Words;
  readonly unit: WeightUnit;
  readonly grows: 'down' | 'up';
  /** What the root says. */
  readonly rootLabel: string;
  /** Whose colour the root has; it is nobody's otherwise. */
  readonly rootKey?: number;
  readonly label: string;
  /** Whether what is searched for stands out; not where the search already chose what is shown. */
  readonly highlights: boolean;
  readonly zoomed: number;
  readonly chosen: number;
  onChoose(box: number): void;
  onZoom(box: number): void;
  /** The wheel with Ctrl, or a pinch, at a part of the width. */
  onPinch?(factor: number, part: number): void;
  onMenu?(box: number, place: {x: number; y: number}): void;
  /** The canvas, for those who save it or give it keys. */
  onReady?(canvas: FlameCanvas | null): void;
}

export function Flame(props: FlameProps) {
  const {layout, words, unit, grows, rootLabel, zoomed, chosen} = props;
  const host = useRef<HTMLDivElement>(null);
  const canvas = useRef<FlameCanvas | null>(null);
  const hover = useSignal<{box: number; x: number; y: number} | null>(null);
  const shade = store.shade.value;
  const searched = found.value;

  useEffect(() => {
    if (!host.current) return;
    const made = new FlameCanvas(host.current);
    canvas.current = made;
    props.onReady?.(made);
    return () => {
      props.onReady?.(null);
      made.stop();
    };
  }, []);

  useEffect(() => {
    const colours = words.colours(shade);
    const {rootKey} = props;
    canvas.current?.show({
      layout,
      grows,
      zoomed,
      chosen,
      looks: {
        label: key => words.of(key)?.label ?? rootLabel,
        colour: key => colours(key === ROOT_KEY && rootKey !== undefined ? rootKey : key),
        matches: props.highlights ? matcherOf(searched) : undefined,
        amount: box => `${amountOf(weightOf(layout, box), unit)}  ${percent(shareAt(layout, box))}`,
      },
    });
  }, [layout, words, unit, grows, rootLabel, zoomed, chosen, shade, searched]);

  useEffect(() => canvas.current?.reveal(chosen), [chosen]);
  useEffect(() => {
    hover.value = null;
  }, [layout, zoomed]);

  const at = (event: MouseEvent) => {
    const box = host.current!.getBoundingClientRect();
    return canvas.current?.hit(event.clientX - box.left, event.clientY - box.top) ?? -1;
  };
  return (
    <>
      <div
        ref={host}
        class="plot flame"
        role="application"
        // biome-ignore lint/a11y/noNoninteractiveTabindex: it takes keys
        tabIndex={0}
        aria-label={`${props.label}: arrows move between boxes, Enter zooms. The table has the same numbers`}
        onPointerMove={event => {
          const box = at(event);
          hover.value = box < 0 ? null : {box, x: event.clientX, y: event.clientY};
        }}
        onPointerLeave={() => (hover.value = null)}
        onClick={event => {
          const box = at(event);
          if (box < 0) return;
          props.onChoose(box);
          props.onZoom(box);
        }}
        onDblClick={() => props.onZoom(0)}
        onContextMenu={event => {
          const box = at(event);
          if (box < 0 || !props.onMenu) return;
          event.preventDefault();
          hover.value = null;
          props.onMenu(box, {x: event.clientX, y: event.clientY});
        }}
        onWheel={event => {
          if (props.onPinch && (event.ctrlKey || event.metaKey)) {
            event.preventDefault();
            const {left, width} = host.current!.getBoundingClientRect();
            props.onPinch(pinchFactor(event.deltaY), (event.clientX - left) / width);
          } else if (canvas.current?.scrollBy(grows === 'down' ? event.deltaY : -event.deltaY)) event.preventDefault();
        }}
        onKeyDown={event => {
          if (flameKey(props, event.key)) {
            event.preventDefault();
            event.stopPropagation();
          }
        }}
      />
      {hover.value && hover.value.box < layout.parent.length && <BoxTooltip {...props} {...hover.value} />}
    </>
  );
}

/** What a key does with a flame graph; whether it does something. */
export function flameKey(props: FlameProps, key: string): boolean {
  const {layout, chosen, zoomed, grows} = props;
  if (key.startsWith('Arrow')) props.onChoose(neighbour(layout, chosen, key, grows));
  else if (key === 'Enter' && chosen >= 0) props.onZoom(chosen);
  else if (key === '0') props.onZoom(0);
  else if (key === 'Escape' && zoomed !== 0) props.onZoom(0);
  else return false;
  return true;
}

export function shareAt(layout: FlameLayout, box: number): number {
  return weightOf(layout, 0) > 0 ? weightOf(layout, box) / weightOf(layout, 0) : 0;
}

function BoxTooltip({layout, words, unit, rootLabel, box, x, y}: FlameProps & {box: number; x: number; y: number}) {
  const line = words.of(layout.key[box]);
  const above = layout.parent[box];
  return (
    <FloatingCard x={x} y={y}>
      <div>
        <b>{line?.name ?? rootLabel}</b>
      </div>
      {line?.file && (
        <div class="faint wrap">
          {/* A path may be broken behind a slash. */}
          {line.file.split(/(?<=[/\\])/).map((part, i) => (
            <span key={i}>
              {part}
              <wbr />
            </span>
          ))}
          {line.line > 0 && `:${line.line}`}
        </div>
      )}
      <div>
        {amountOf(weightOf(layout, box), unit)} <span class="faint">({exactAmount(weightOf(layout, box), unit)})</span>
      </div>
      <div class="faint">
        {percent(shareAt(layout, box))} of all
        {box !== 0 &&
          above !== 0 &&
          `, ${percent(weightOf(layout, box) / Math.max(weightOf(layout, above), 1e-300))} of its caller`}
        , in {counted(layout.totalCount[box], 'allocation')}
      </div>
      {layout.self[box] > 0 && layout.self[box] < layout.total[box] && (
        <div class="faint">{amountOf(layout.self[box], unit)} in this frame itself, without its callees</div>
      )}
    </FloatingCard>
  );
}
