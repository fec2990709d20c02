/** Reserved memory: as it was recorded, and as it would have been. */

import {useSignal} from '@preact/signals';
import {useEffect} from 'preact/hooks';
import {drawLevel, drawRuler} from '../../draw/overlay';
import {zoomed} from '../../draw/viewport';
import {useAnswer} from '../../kit/answer';
import {addCommands, type CommandGroup} from '../../kit/keys';
import {Breakable} from '../../kit/prose';
import {SaveMenu} from '../../kit/save';
import {SmallChart} from '../../kit/small-chart';
import {moved, within} from '../../model/axis';
import {binary, count} from '../../model/units';
import {engine, type Opened} from '../../state/session';
import * as store from '../../state/store';
import {drawSteps, drawTotals} from '../summary/totals-draw';
import {drawLine, type Line} from './lines';

/** Columns of the recorded totals. */
const COLUMNS = 1600;

/** For the help card. */
const HANDS: CommandGroup = {
  title: 'What if',
  commands: [],
  gestures: [
    {hands: 'wheel', help: 'zoom the chart at the pointer'},
    {hands: 'Shift wheel', help: 'move left and right'},
    {hands: 'click', help: 'put the cursor there, for every view'},
  ],
};

export function WhatIfChart({device, lines}: {device: Opened; lines: Line[]}) {
  useEffect(() => addCommands(() => HANDS), []);
  const hover = useSignal<number | null>(null);
  const whole = {from: 0, to: device.entries};
  // Over time the visible stretch is no stretch of entries.
  const x = (store.axis.value === 'entry' ? store.xRange.value : null) ?? whole;
  const recorded = useAnswer(device, () => {
    const within = store.axis.value === 'entry' ? store.xRange.value : null;
    return engine().totalsOverTime(COLUMNS, within ?? whole);
  });
  const totals = recorded.value.value;
  const capacities = [...new Set(lines.flatMap(({capacityBytes}) => (capacityBytes === null ? [] : [capacityBytes])))];
  const highBytes = Math.max(device.reservedMaxBytes, device.peakBytes, 1, ...lines.map(({steps}) => steps.max)) * 1.06;
  const entry = hover.value === null ? null : Math.min(Math.floor(hover.value), device.entries - 1);
  const column = entry === null || !totals ? -1 : totals.entries.findLastIndex(first => first <= entry);
  const onWheel = (event: WheelEvent, position: number) => {
    if (store.axis.value !== 'entry') return;
    event.preventDefault();
    const span = x.to - x.from;
    const isAcross = event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY);
    const by = (event.deltaX || event.deltaY) / 800;
    store.xRange.value = isAcross
      ? within(moved(x, by * span), whole)
      : zoomed(x, whole, position, 1.0015 ** event.deltaY, 'entry');
  };
  return (
    <div class="card">
      <h2>
        Reserved memory
        <span class="faint">
          {entry === null
            ? 'wheel zooms, Shift+wheel moves; the timeline shows the same range'
            : `entry ${count(entry)}`}
        </span>
        <span class="spring" />
        {store.xRange.value && store.axis.value === 'entry' && (
          <button type="button" class="plain" onClick={() => (store.xRange.value = null)}>
            show everything
          </button>
        )}
        <SaveMenu />
      </h2>
      <SmallChart
        saveAs="what-if"
        label={`Reserved bytes over ${count(device.entries)} entries, recorded and simulated; the tables below have the same numbers`}
        x={x}
        highBytes={highBytes}
        data={[totals, lines, hover.value]}
        draw={(pen, viewport, ink) => {
          if (totals) {
            drawTotals(pen, viewport, totals, {area: ink.bar, steady: ink.bar, reserved: ink.reserved});
          }
          for (const bytes of capacities) drawLevel(pen, viewport, ink.capacity, bytes, `memory ${binary(bytes)}`);
          for (const line of lines) drawLine(pen, viewport, line, device.entries, ink.danger);
          if (totals) drawSteps(pen, viewport, totals.entries, totals.reservedBytes, ink.reserved, device.entries);
          if (hover.value !== null) drawRuler(pen, viewport, ink.accent, hover.value);
        }}
        onHover={position => (hover.value = position)}
        onClick={position => (store.cursor.value = Math.min(Math.floor(position), device.entries - 1))}
        onWheel={onWheel}
      />
      <div class="line-legend" role="status">
        <span>
          <span class="swatch line" /> recorded
          {column >= 0 && totals && <b>{binary(totals.reservedBytes[column])}</b>}
        </span>
        <span>
          <span class="swatch weak" /> active, recorded
          {column >= 0 && totals && <b>{binary(totals.highBytes[column])}</b>}
        </span>
        {lines.map(line => (
          <span key={line.id}>
            <LineSwatch line={line} />
            {'\u00a0'}
            <Breakable text={line.label} />
            {entry !== null && (
              <b>{line.oomEntry !== undefined && entry > line.oomEntry ? 'ended' : binary(line.steps.at(entry))}</b>
            )}
          </span>
        ))}
      </div>
    </div>
  );
}

/** A piece of a line as it is drawn. */
export function LineSwatch({line}: {line: Line}) {
  return (
    <svg class="line-swatch" width="22" height="6" aria-hidden="true">
      <line
        x1="0"
        y1="3"
        x2="22"
        y2="3"
        stroke={line.colour}
        stroke-width="2.5"
        stroke-dasharray={line.dash.join(' ')}
      />
    </svg>
  );
}
