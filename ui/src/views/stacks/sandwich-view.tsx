/** The sandwich: all frames in a table; of the chosen one, what calls it above and what it calls below. */

import {useSignal} from '@preact/signals';
import {useEffect, useMemo, useRef} from 'preact/hooks';
import {useAnswer} from '../../kit/answer';
import {copyText} from '../../kit/copy';
import {ProblemCard} from '../../kit/problem';
import {registerPicture} from '../../kit/save';
import type {FlameLayout} from '../../model/flame-layout';
import {count, counted, percent} from '../../model/units';
import {engine, found, type Opened} from '../../state/session';
import * as store from '../../state/store';
import type {AroundFrame, FrameTableRows} from '../../worker/flame';
import {Flame} from './flame';
import type {FlameCanvas} from './flame-canvas';
import {FrameTable} from './frame-table';
import {flameRequest, numberOption} from './request';
import {SORTS, sortedRows} from './sort';
import {amountOf, exactAmount, matcherOf, subjectOf, Words} from './words';

export function SandwichView({device}: {device: Opened}) {
  const table = useAnswer(device, () => engine().frameTable({...flameRequest(), isInverted: false}));
  const around = useAnswer(device, () => {
    const key = numberOption('stacks.frame');
    return key === null ? null : engine().aroundFrame({...flameRequest(), isInverted: false}, key);
  });
  if (table.value.problem) return <ProblemCard problem={table.value.problem} />;
  if (!table.value.value) return <p class="reading">summing up …</p>;
  return <Sandwich device={device} table={table.value.value} around={around.value.value} />;
}

function Sandwich(props: {device: Opened; table: FrameTableRows; around: AroundFrame | null}) {
  const {device, table, around} = props;
  const words = useMemo(() => new Words(table.words), [table]);
  const by = store.viewOption('stacks.sort', SORTS);
  const isReversed = store.viewOption('stacks.reversed', ['no', 'yes']) === 'yes';
  const searched = found.value;
  const rows = useMemo(
    () => sortedRows(table.totals, by, isReversed, key => words.of(key)?.label ?? '', matcherOf(searched)),
    [table, words, by, isReversed, searched],
  );
  const chosen = numberOption('stacks.frame');
  const choose = (key: number) => store.setViewOption('stacks.frame', String(key));
  return (
    <>
      <div class="subject">
        <b title={exactAmount(table.all.weight, table.unit)}>{amountOf(table.all.weight, table.unit)}</b>{' '}
        {subjectOf(table, flameRequest().of, device.peakEntry)}
        <span class="faint">
          {' '}
          in {counted(table.all.count, 'allocation')}, {count(rows.length)} of {count(table.totals.key.length)} frames
        </span>
        <span class="spring" />
        <button type="button" class="plain" onClick={() => copyText(tableText(table, words, rows))}>
          copy table
        </button>
      </div>
      <div class="sandwich">
        <FrameTable table={table} words={words} rows={rows} chosen={chosen} onChoose={choose} />
        <div class="around">
          {around && chosen !== null ? (
            <Around key={chosen} {...{around, table, chosen, choose}} />
          ) : (
            <p class="reading">choose a frame to see its callers and its callees</p>
          )}
        </div>
      </div>
    </>
  );
}

function Around(props: {around: AroundFrame; table: FrameTableRows; chosen: number; choose(key: number): void}) {
  const {around, table, chosen} = props;
  const words = useMemo(() => new Words(around.words), [around]);
  const line = words.of(chosen);
  const label = line?.label ?? '?';
  const total = around.callees.total[0];
  const callees = useRef<FlameCanvas | null>(null);
  useEffect(
    () => registerPicture(() => ({canvas: callees.current!.canvas, name: 'callees', svg: callees.current!.toSvg()})),
    [],
  );
  const common = {words, unit: table.unit, rootLabel: label, rootKey: chosen, choose: props.choose};
  return (
    <>
      <HalfFlame {...common} layout={around.callers} grows="up" label={`Callers of ${label}`} />
      <div class="middle">
        <b class="site" title={line?.file ? `${line.file}:${line.line}` : ''}>
          {label}
        </b>
        <span class="faint" title={exactAmount(total, table.unit)}>
          {amountOf(total, table.unit)}, {percent(table.all.weight > 0 ? total / table.all.weight : 0)}
        </span>
        {line?.file && (
          <button
            type="button"
            title="Highlight the allocations through this line in every view"
            onClick={() => (store.query.value = `"${line.file}:${line.line}"`)}
          >
            show these allocations
          </button>
        )}
      </div>
      <HalfFlame
        {...common}
        layout={around.callees}
        grows="down"
        label={`Callees of ${label}`}
        onReady={canvas => {
          callees.current = canvas;
        }}
      />
    </>
  );
}

interface HalfProps {
  layout: FlameLayout;
  words: Words;
  unit: FrameTableRows['unit'];
  grows: 'down' | 'up';
  rootLabel: string;
  rootKey: number;
  label: string;
  choose(key: number): void;
  onReady?(canvas: FlameCanvas | null): void;
}

function HalfFlame(props: HalfProps) {
  const zoomed = useSignal(0);
  const chosen = useSignal(-1);
  useEffect(() => {
    zoomed.value = 0;
    chosen.value = -1;
  }, [props.layout]);
  const boxes = props.layout.parent.length;
  return (
    <div class="half">
      <h2>
        {props.grows === 'up' ? 'called from' : 'calls'}
        {boxes === 1 && <span class="faint"> none shown</span>}
        {chosen.value > 0 && chosen.value < boxes && (
          <button type="button" class="plain" onClick={() => props.choose(props.layout.key[chosen.value])}>
            go to {props.words.of(props.layout.key[chosen.value])?.name}
          </button>
        )}
      </h2>
      <Flame
        {...props}
        highlights={false}
        zoomed={Math.min(zoomed.value, boxes - 1)}
        chosen={Math.min(chosen.value, boxes - 1)}
        onChoose={box => (chosen.value = box)}
        onZoom={box => (zoomed.value = box)}
      />
    </div>
  );
}

function tableText({totals, unit}: FrameTableRows, words: Words, rows: Uint32Array): string {
  const head = `self\tallocations\ttotal\tallocations\tframe\tfile\t(${unit})`;
  const lines = Array.from(rows, row => {
    const line = words.of(totals.key[row]);
    const numbers = [totals.self[row], totals.selfCount[row], totals.total[row], totals.totalCount[row]].map(
      Math.round,
    );
    return [...numbers, line?.name ?? '', line?.file ? `${line.file}:${line.line}` : ''].join('\t');
  });
  return [head, ...lines].join('\n');
}
