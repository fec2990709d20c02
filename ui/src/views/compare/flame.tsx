/** The difference flame graph. */

import {useSignal} from '@preact/signals';
import {useEffect, useMemo, useRef} from 'preact/hooks';
import type {StackTree} from '../../data/curves';
import {FloatingCard} from '../../kit/floating';
import {binary, count, percent, signed} from '../../model/units';
import * as store from '../../state/store';
import {FlameCanvas, neighbour} from '../stacks/flame-canvas';
import {changeColour, changeShare, differenceOf} from './difference';

interface FlameProps {
  readonly tree: StackTree;
  readonly names: readonly string[];
  readonly moment: string;
}

export function DifferenceFlame({tree, names, moment}: FlameProps) {
  const host = useRef<HTMLDivElement>(null);
  const canvas = useRef<FlameCanvas | null>(null);
  const hover = useSignal<{box: number; x: number; y: number} | null>(null);
  const zoomed = useSignal(0);
  const chosen = useSignal(-1);
  const difference = useMemo(() => differenceOf(tree), [tree]);
  const {layout, text, bytes} = difference;
  const shade = store.shade.value;

  useEffect(() => {
    if (!host.current) return;
    const made = new FlameCanvas(host.current);
    canvas.current = made;
    return () => made.stop();
  }, []);
  useEffect(() => {
    zoomed.value = 0;
    chosen.value = -1;
    hover.value = null;
  }, [layout]);
  useEffect(() => {
    canvas.current?.show({
      layout,
      grows: 'down',
      zoomed: Math.min(zoomed.value, layout.parent.length - 1),
      chosen: chosen.value,
      looks: {
        label: key => text[key],
        colour: key => changeColour(changeShare(bytes[key]), shade),
        matches: undefined,
        amount: box => changeWords(bytes[layout.key[box]]),
      },
    });
  }, [layout, zoomed.value, chosen.value, shade]);
  useEffect(() => canvas.current?.reveal(chosen.value), [chosen.value]);

  const at = (event: MouseEvent) => {
    const box = host.current!.getBoundingClientRect();
    return canvas.current?.hit(event.clientX - box.left, event.clientY - box.top) ?? -1;
  };
  const said = chosen.value >= 0 ? chosen.value : zoomed.value;
  const levels = layout.levelFrom.length - 1;
  return (
    <div class="card">
      <h2>
        Where it changed
        <span class="faint">{moment}; widths by the larger of the two</span>
        <span class="spring" />
        <span class="faint kinds">
          <span>
            <span class="swatch" style={{background: changeColour(1, shade)}} /> more in {names[1]}
          </span>
          <span>
            <span class="swatch" style={{background: changeColour(-1, shade)}} /> less
          </span>
          <span>
            <span class="swatch" style={{background: changeColour(0, shade)}} /> the same
          </span>
        </span>
        {zoomed.value !== 0 && (
          <button type="button" class="plain" onClick={() => (zoomed.value = 0)}>
            reset zoom
          </button>
        )}
      </h2>
      <div
        ref={host}
        class="plot difference"
        style={{height: `${Math.min(520, Math.max(4, levels) * 19 + 4)}px`}}
        role="application"
        // biome-ignore lint/a11y/noNoninteractiveTabindex: it takes keys
        tabIndex={0}
        aria-label={`Flame graph of the difference ${moment}: arrows move between boxes, Enter zooms. The table above lists the same changes by call site`}
        onPointerMove={event => {
          const box = at(event);
          hover.value = box < 0 ? null : {box, x: event.clientX, y: event.clientY};
        }}
        onPointerLeave={() => (hover.value = null)}
        onClick={event => {
          const box = at(event);
          if (box < 0) return;
          chosen.value = box;
          zoomed.value = box;
        }}
        onDblClick={() => (zoomed.value = 0)}
        onKeyDown={event => {
          if (event.key.startsWith('Arrow') && !event.shiftKey) {
            chosen.value = neighbour(layout, chosen.value, event.key, 'down');
          } else if (event.key === 'Enter' && chosen.value >= 0) zoomed.value = chosen.value;
          else if (event.key === '0' || (event.key === 'Escape' && zoomed.value !== 0)) zoomed.value = 0;
          else return;
          event.preventDefault();
          event.stopPropagation();
        }}
      />
      <p class="chosen-box" role="status">
        <b class="site">{text[layout.key[said]]}</b>{' '}
        <span class="faint">{sidesWords(bytes[layout.key[said]], names)}</span>
      </p>
      {hover.value && hover.value.box < layout.parent.length && (
        <FloatingCard x={hover.value.x} y={hover.value.y}>
          <div>
            <b>{text[layout.key[hover.value.box]]}</b>
          </div>
          <div>{changeWords(bytes[layout.key[hover.value.box]])}</div>
          <div class="faint">{sidesWords(bytes[layout.key[hover.value.box]], names)}</div>
        </FloatingCard>
      )}
    </div>
  );
}

/** `+1.20 GiB (+30.0 %)`; what is only in one file has no part that it changed by. */
export function changeWords([before, after]: readonly [number, number]): string {
  if (before === after) return 'the same';
  if (before === 0) return `${signed(after)} (new)`;
  if (after === 0) return `${signed(-before)} (gone)`;
  // Percents of hundreds are read worse.
  if (after >= 10 * before) return `${signed(after - before)} (×${count(Math.round(after / before))})`;
  const share = after / before - 1;
  return `${signed(after - before)} (${share > 0 ? '+' : '−'}${percent(Math.abs(share))})`;
}

function sidesWords([before, after]: readonly [number, number], names: readonly string[]): string {
  return `${names[0]} ${binary(before)}, ${names[1]} ${binary(after)}`;
}
