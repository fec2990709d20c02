/** Both timelines, one under the other: one byte scale, one axis, one cursor. */

import {useSignal} from '@preact/signals';
import {drawCurve, drawMarker} from '../../draw/curve';
import {drawRuler} from '../../draw/overlay';
import {cssOfPosition, zoomed} from '../../draw/viewport';
import {SmallChart} from '../../kit/small-chart';
import {
  ALIGNMENTS,
  type Aligned,
  type Alignment,
  aligned,
  canAlign,
  highestOf,
  partAt,
  wholeAxis,
} from '../../model/alignment';
import {moved, within} from '../../model/axis';
import {shortNames} from '../../model/short-names';
import {binary, count, duration, signed} from '../../model/units';
import * as store from '../../state/store';
import {chosenAlignment, type Pair} from './pair';

const WORDS: Record<Alignment, string> = {iteration: 'iterations', entry: 'entries', time: 'time'};

export function Charts({pair}: {pair: Pair}) {
  const hover = useSignal<number | null>(null);
  const zoom = useSignal<{from: number; to: number} | null>(null);
  const alignment = chosenAlignment(pair);
  const both = pair.curves.map(curve => aligned(curve, alignment));
  const whole = wholeAxis(both);
  const x = zoom.value ? within(zoom.value, whole) : whole;
  const names = shortNames(pair.files.map(({name}) => name));
  const onWheel = (event: WheelEvent, position: number) => {
    event.preventDefault();
    const isAcross = event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY);
    zoom.value = isAcross
      ? within(moved(x, ((event.deltaX || event.deltaY) / 800) * (x.to - x.from)), whole)
      : zoomed(x, whole, position, 1.0015 ** event.deltaY, alignment === 'entry' ? 'entry' : 'time');
  };
  return (
    <div class="card">
      <h2>
        Both timelines
        <label class="faint">
          aligned by{' '}
          <select
            aria-label="Align by"
            value={alignment}
            onChange={event => {
              zoom.value = null;
              store.setViewOption('compare.align', event.currentTarget.value);
            }}
          >
            {ALIGNMENTS.map(one => (
              <option key={one} value={one} disabled={!canAlign(pair.curves, one)}>
                {WORDS[one]}
                {!canAlign(pair.curves, one) && ' (not in both)'}
              </option>
            ))}
          </select>
        </label>
        <span class="faint" role="status">
          {hover.value === null ? 'wheel zooms, Shift+wheel moves' : axisWords(hover.value, alignment)}
        </span>
        <span class="spring" />
        {zoom.value && (
          <button type="button" class="plain" onClick={() => (zoom.value = null)}>
            show everything
          </button>
        )}
      </h2>
      {both.map((one, i) => (
        <div key={i} class="curve">
          <CurveHead one={one} name={names[i]} other={both[0]} isSecond={i === 1} at={hover.value} />
          <SmallChart
            label={`Bytes of ${pair.files[i].name} over ${WORDS[alignment]}; the table below has the numbers`}
            axis={alignment}
            x={x}
            highBytes={highestOf(pair.curves) * 1.06}
            data={[pair, alignment, hover.value]}
            draw={(pen, viewport, ink) => {
              drawCurve(pen, viewport, one, ink.bar, ink.reserved);
              const {curve, positions} = one;
              const placeOf = (entry: number) => {
                const part = Math.min(Math.floor((entry * curve.bytes.length) / curve.entries), curve.bytes.length - 1);
                return cssOfPosition(viewport, positions[part]);
              };
              drawMarker(pen, placeOf(curve.peak.entry), ink.accent);
              for (const entry of curve.ooms) drawMarker(pen, placeOf(entry), ink.danger);
              if (hover.value !== null) drawRuler(pen, viewport, ink.accent, hover.value);
            }}
            onHover={position => (hover.value = position)}
            onWheel={onWheel}
          />
        </div>
      ))}
      <p class="kinds">
        <span>
          <span class="swatch weak" /> {pair.curves[0].measure === 'active_bytes' ? 'active' : 'requested'}
        </span>
        {pair.curves.some(({reserved_peak: peak}) => peak.bytes > 0) && (
          <span>
            <span class="swatch line" /> reserved
          </span>
        )}
        <span>▾ peak</span>
      </p>
    </div>
  );
}

interface HeadProps {
  readonly one: Aligned;
  readonly name: string;
  /** The first, which the second is compared with. */
  readonly other: Aligned;
  readonly isSecond: boolean;
  readonly at: number | null;
}

function CurveHead({one, name, other, isSecond, at}: HeadProps) {
  const {curve} = one;
  const bytesAt = (aligned: Aligned) => (at === null ? undefined : aligned.curve.bytes[partAt(aligned, at)]);
  const [here, there] = [bytesAt(one), bytesAt(other)];
  const word = curve.measure === 'active_bytes' ? 'active' : 'requested';
  return (
    <p class="curve-head">
      <b>{name}</b>
      <span class="faint">
        device {curve.device}, peak {binary(curve.peak.bytes)} {word}
        {curve.ooms.length > 0 && ', ran out of memory'}
      </span>
      <span class="spring" />
      {at !== null && (
        <b class="at">
          {here === undefined ? 'ended' : binary(here)}
          {isSecond && here !== undefined && there !== undefined && ` (${signed(here - there)})`}
        </b>
      )}
    </p>
  );
}

/** A place of the axis in words. */
export function axisWords(place: number, alignment: Alignment): string {
  switch (alignment) {
    case 'entry':
      return `entry ${count(Math.floor(place))}`;
    case 'time':
      return `${duration(place)} after the first entry`;
    case 'iteration':
      return place < 0 ? 'before the first iteration' : `iteration ${place.toFixed(1)}`;
  }
}
