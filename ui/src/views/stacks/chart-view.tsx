/** Stacks over time: what was allocated in the visible stretch, from left to right in the order of the recording. */

import {useSignal} from '@preact/signals';
import {useEffect, useMemo, useRef} from 'preact/hooks';
import {drawPositionAxis} from '../../draw/overlay';
import {zoomed} from '../../draw/viewport';
import {useAnswer} from '../../kit/answer';
import {addCommands} from '../../kit/keys';
import {openMenu} from '../../kit/menu';
import {ProblemCard} from '../../kit/problem';
import {registerPicture} from '../../kit/save';
import {type AxisRange, moved, within} from '../../model/axis';
import {shareOf} from '../../model/flame-layout';
import {binary, count, counted, percent} from '../../model/units';
import {engine, found, type Opened, switchAxis} from '../../state/session';
import * as store from '../../state/store';
import type {ChartOfStacks} from '../../worker/flame-chart';
import {Flame, type FlameProps} from './flame';
import type {FlameCanvas} from './flame-canvas';
import {boxItems, ChosenBox, HiddenStacks, kindsOf, useFlameKeys} from './flame-parts';
import {chartRequest, chartWeighing} from './request';
import {KindLegend} from './toolbar';
import {amountOf, exactAmount, matcherOf, Words} from './words';

export function ChartView({device}: {device: Opened}) {
  const answer = useAnswer(device, () => engine().chartOfStacks(chartRequest(device)));
  const {value, problem} = answer.value;
  if (problem) return <ProblemCard problem={problem} />;
  if (!value) return <p class="reading">summing up …</p>;
  return <Chart device={device} chart={value} />;
}

function Chart({device, chart}: {device: Opened; chart: ChartOfStacks}) {
  const {layout, range, stretch} = chart;
  const words = useMemo(() => new Words(chart.words), [chart]);
  const canvas = useRef<FlameCanvas | null>(null);
  const chosen = useSignal(-1);
  useEffect(() => {
    chosen.value = -1;
  }, [layout]);
  const zoom = (box: number) => {
    const [from, to] = [layout.left[box], layout.left[box] + layout.total[box]];
    store.xRange.value = box === 0 || to <= from ? null : {from, to};
  };
  const subject = `${chartWeighing() === 'kept' ? 'allocated and kept' : 'allocated'} in entries ${count(stretch.from)} to ${count(stretch.to - 1)}`;
  const props: FlameProps = {
    layout,
    words,
    unit: 'bytes',
    grows: 'down',
    rootLabel: 'all',
    label: `Flame chart: ${subject}`,
    highlights: true,
    zoomed: 0,
    chosen: Math.min(chosen.value, layout.parent.length - 1),
    onChoose: box => (chosen.value = box),
    onZoom: zoom,
    onPinch: (factor, part) => zoomBy(chart, factor, part),
    onMenu: (box, place) =>
      openMenu(place, words.of(layout.key[box])?.label ?? 'all', boxItems(chart, words, box, zoom)),
    onReady: made => {
      canvas.current = made;
    },
  };
  useFlameKeys(props, box => canvas.current?.placeOf(box));
  useChartKeys(device, chart);
  useEffect(
    () => registerPicture(() => ({canvas: canvas.current!.canvas, name: 'stacks', svg: canvas.current!.toSvg()})),
    [],
  );
  const matches = matcherOf(found.value);
  const share = useMemo(() => (matches ? shareOf(layout, matches) : undefined), [layout, found.value]);
  const kinds = useMemo(() => kindsOf(chart, words), [chart]);
  return (
    <>
      <div class="subject">
        <b title={exactAmount(layout.weight[0], 'bytes')}>{amountOf(layout.weight[0], 'bytes')}</b> {subject}
        <span class="faint"> in {counted(layout.totalCount[0], 'allocation')}</span>
        {chart.isCoarse && <span class="faint"> · zoom in to see every one</span>}
        <HiddenStacks />
        {share !== undefined && <span class="chip match">matched {percent(share)}</span>}
        <span class="spring" />
        {(range.from > chart.whole.from || range.to < chart.whole.to) && store.xRange.value && (
          <button type="button" class="plain" title="Show everything (0)" onClick={() => zoom(0)}>
            reset zoom
          </button>
        )}
        <KindLegend kinds={kinds} />
      </div>
      <Bars chart={chart} />
      <Flame {...props} />
      <ChosenBox {...props} />
    </>
  );
}

/** Zooms the x axis about a part of the width. */
function zoomBy({range, whole, over}: ChartOfStacks, factor: number, part: number): void {
  store.xRange.value = zoomed(range, whole, range.from + (range.to - range.from) * part, factor, over);
}

function useChartKeys(device: Opened, chart: ChartOfStacks): void {
  const newest = useRef(chart);
  newest.current = chart;
  useEffect(() => {
    const zoom = (factor: number) => () => zoomBy(newest.current, factor, 0.5);
    const pan = (part: number) => () => {
      const {range, whole} = newest.current;
      store.xRange.value = asWhole(within(moved(range, (range.to - range.from) * part), whole), whole);
    };
    return addCommands(() => ({
      title: 'Over time',
      gestures: [{hands: 'pinch, Ctrl wheel', help: 'zoom at the pointer'}],
      commands: [
        {keys: ['w', '+'], help: 'zoom in', run: zoom(0.7)},
        {keys: ['s', '-'], help: 'zoom out', run: zoom(1 / 0.7)},
        {keys: ['a'], help: 'move left', run: pan(-0.15)},
        {keys: ['d'], help: 'move right', run: pan(0.15)},
        {keys: ['t'], help: 'entries or time on the x axis', run: () => void switchAxis(device)},
      ],
    }));
  }, [device]);
}

function asWhole(range: AxisRange, whole: AxisRange): AxisRange | null {
  return range.from <= whole.from && range.to >= whole.to ? null : range;
}

const BARS_CSS = 34;
const AXIS_CSS = 20;

/** The bytes that were allocated, over the boxes that allocated them, and the x axis. */
function Bars({chart}: {chart: ChartOfStacks}) {
  const host = useRef<HTMLCanvasElement>(null);
  const shade = store.shade.value;
  const draw = () => {
    const canvas = host.current;
    const pen = canvas?.getContext('2d');
    if (!canvas || !pen || canvas.clientWidth === 0) return;
    const ratio = globalThis.devicePixelRatio || 1;
    const widthCss = canvas.clientWidth;
    canvas.width = Math.round(widthCss * ratio);
    canvas.height = Math.round((BARS_CSS + AXIS_CSS) * ratio);
    pen.scale(ratio, ratio);
    const style = getComputedStyle(canvas);
    const colour = (name: string) => style.getPropertyValue(`--${name}`).trim();
    const {bars, range, over} = chart;
    const most = bars.reduce((high, one) => Math.max(high, one), 1);
    const barCss = widthCss / bars.length;
    pen.fillStyle = colour('bar-strong');
    for (const [i, bytes] of bars.entries()) {
      const height = (bytes / most) * (BARS_CSS - 2);
      pen.fillRect(i * barCss, BARS_CSS - height, Math.max(1, barCss - 0.5), height);
    }
    pen.font = '11px system-ui, sans-serif';
    pen.textBaseline = 'top';
    const words = `up to ${binary(most)}`;
    pen.fillStyle = colour('plot');
    pen.fillRect(2, 1, pen.measureText(words).width + 4, 14);
    pen.fillStyle = colour('faint');
    pen.fillText(words, 4, 2);
    const ink = {text: colour('text'), faint: colour('faint'), grid: colour('grid'), accent: colour('accent')};
    // Without the label at the very edge, half of which would be outside.
    const x = {from: range.from + (range.to - range.from) * 1e-6, to: range.to};
    const viewport = {widthCss, heightCss: BARS_CSS, x, lowBytes: 0, highBytes: most};
    drawPositionAxis(
      pen,
      viewport,
      {...ink, background: colour('plot'), reserved: '', capacity: '', danger: ''},
      0,
      BARS_CSS,
      over,
    );
  };
  useEffect(draw, [chart, shade]);
  useEffect(() => {
    const observer = new ResizeObserver(draw);
    if (host.current) observer.observe(host.current);
    return () => observer.disconnect();
  }, [chart]);
  return <canvas ref={host} class="bars" role="img" aria-label="Bytes allocated over time" />;
}
