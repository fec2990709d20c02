/** The part of a view that holds a stacked picture: makes its chart, and says what the pointer is over. */

import {effect, useSignal, useSignalEffect} from '@preact/signals';
import type {ComponentChildren} from 'preact';
import {useLayoutEffect, useRef} from 'preact/hooks';
import {Transferred} from '../../data/rpc';
import {Problem} from '../../data/source';
import {FloatingCard} from '../../kit/floating';
import {outsideName} from '../../kit/outside';
import {registerPicture} from '../../kit/save';
import type {Axis} from '../../model/axis';
import {leaveGarbage} from '../../model/garbage';
import {binary, count} from '../../model/units';
import {axisAtOnce, axisOf, type Opened, opened, problem, shownAxis} from '../../state/session';
import * as store from '../../state/store';
import type {StackedRequest} from '../../worker/pictures';
import {type ChartSource, type Hit, StackedChart} from './chart';
import {addChartCommands} from './commands';
import {listen} from './gestures';
import {namesAt} from './lanes';

/** What a view adds to its chart. `D` is what it knows of a row. */
export interface PlotProps<D> {
  readonly device: Opened;
  /** Of the view, for the help card and the name of saved pictures. */
  readonly title: string;
  /** The picture in words. */
  readonly label: string;
  readonly source: ChartSource;
  describe(row: number, entry: number): Promise<D>;
  /** What the pointer is over, in words. */
  words(details: D, hit: Hit): ComponentChildren;
  onPin(hit: Hit | undefined, chart: StackedChart): void;
  /** Opens the menu of a row; right clicks are the browser's without it. */
  onMenu?(hit: Hit & {row: number}, place: {x: number; y: number}): void;
  /** The row that the key for a menu is about, and where it is looked at. */
  readonly chosen?: () => Hit | undefined;
  /** Shows a row, or what is pinned. */
  onFit(row: number | undefined, chart: StackedChart): void;
}

interface Hover<D> {
  readonly x: number;
  readonly y: number;
  readonly hit: Hit;
  readonly details?: D;
}

export function StackedPlot<D>(props: PlotProps<D>) {
  const {device, title, label, source} = props;
  const host = useRef<HTMLDivElement>(null);
  const axis = useSignal<Axis | null>(axisAtOnce(device, store.axis.peek()) ?? null);
  const hover = useSignal<Hover<D> | null>(null);

  useSignalEffect(() => {
    const kind = store.axis.value;
    if (opened.value !== device) return;
    axisOf(device, kind).then(
      made => {
        axis.value = made;
        shownAxis.value = made;
      },
      error => {
        problem.value = Problem.from(error);
      },
    );
  });

  // Before the browser paints: the worker is asked for the first picture a frame earlier.
  useLayoutEffect(() => {
    if (!host.current || !axis.value) return;
    const chart = new StackedChart(host.current, device, axis.value, source);
    const asker = new Asker(chart, props, hover);
    const ends = [
      listen(host.current, chart, {
        onHover: (hit, event) => asker.look(hit, event),
        onClick: hit => props.onPin(hit, chart),
        onDoubleClick: hit => props.onFit(hit?.row, chart),
        onMenu: (hit, event) => {
          if (!props.onMenu) return;
          event.preventDefault();
          showMenu(props, hit, {x: event.clientX, y: event.clientY});
        },
      }),
      addChartCommands(title, chart, {
        fit: () => props.onFit(undefined, chart),
        menu: props.onMenu && (() => showMenu(props, props.chosen?.(), middleOf(host.current!))),
      }),
      registerPicture(() => ({canvas: chart.toCanvas(), name: title.toLowerCase()})),
      effect(() => {
        void store.xRange.value;
        hover.value = null;
      }),
      () => chart.stop(),
    ];
    return () => {
      for (const end of ends) end();
    };
  }, [device, axis.value]);

  const shown = hover.value;
  const names = shown ? namesAt(device.device, shown.hit.entry) : [];
  return (
    <>
      <div ref={host} class="plot" role="img" aria-label={label} />
      {shown && (
        <FloatingCard x={shown.x} y={shown.y}>
          {shown.details !== undefined && props.words(shown.details, shown.hit)}
          {shown.hit.row === undefined && <OutsideLine device={device} hit={shown.hit} />}
          {shown.hit.isShared && (
            <div class="faint">several allocations share this pixel: zoom in to separate them</div>
          )}
          <div class="faint">
            after entry {count(shown.hit.entry)}
            {names.length > 0 && ` · ${names.join(' › ')}`}
          </div>
        </FloatingCard>
      )}
    </>
  );
}

/** What lies where no allocation of PyTorch's does. */
function OutsideLine({device, hit: {outside}}: {device: Opened; hit: Hit}) {
  if (!outside) return <div>nothing here</div>;
  return (
    <div>
      <b>{binary(outside.bytes)}</b> {device.device.outside?.owners[outside.owner].title}
      <span class="chip">{outsideName(device)}</span>
    </div>
  );
}

function showMenu<D>({onMenu}: PlotProps<D>, hit: Hit | undefined, place: {x: number; y: number}): void {
  if (hit?.row !== undefined) onMenu?.({...hit, row: hit.row}, place);
}

/** Where a menu is opened by a key. */
function middleOf(host: HTMLElement): {x: number; y: number} {
  const {left, top, width, height} = host.getBoundingClientRect();
  return {x: left + width / 2, y: top + height / 3};
}

/** A request that gives the spare memory in it away. */
export function handingOver<R extends StackedRequest>(request: R): Transferred<R> {
  return new Transferred(request, request.spare ? [request.spare.buffer] : []);
}

/** Least time between two cards, in milliseconds: while the pointer sweeps, nobody reads them, and each leaves 100 KiB of garbage. */
const REST_MS = 80;

/** Asks about what the pointer is over, one question at a time. */
class Asker<D> {
  private readonly chart: StackedChart;
  private readonly props: PlotProps<D>;
  private readonly hover: {value: Hover<D> | null};
  private place: {hit: Hit; x: number; y: number} | undefined;
  private known: {row: number; entry: number; details: D} | undefined;
  private isAsking = false;

  constructor(chart: StackedChart, props: PlotProps<D>, hover: {value: Hover<D> | null}) {
    this.chart = chart;
    this.props = props;
    this.hover = hover;
  }

  look(hit: Hit | undefined, event: PointerEvent | undefined): void {
    if (!hit || !event) {
      this.place = undefined;
      this.chart.hover = undefined;
      this.hover.value = null;
      return;
    }
    this.place = {hit, x: event.clientX, y: event.clientY};
    this.chart.hover = {row: hit.row, position: this.chart.axis.positionOf(hit.entry)};
    this.show();
    void this.ask();
  }

  private get isKnown(): boolean {
    return this.known !== undefined && this.known.row === this.place?.hit.row;
  }

  private show(): void {
    if (!this.place) return;
    this.hover.value = {...this.place, ...(this.isKnown ? {details: this.known!.details} : {})};
  }

  private async ask(): Promise<void> {
    if (this.isAsking || this.place?.hit.row === undefined || this.isKnown) return;
    const {row, entry} = this.place.hit;
    this.isAsking = true;
    try {
      this.known = {row: row!, entry, details: await this.props.describe(row!, entry)};
    } catch {
      // Another file was opened under the pointer: the next move asks again.
      this.place = undefined;
    }
    leaveGarbage();
    this.show();
    await new Promise(go => setTimeout(go, REST_MS));
    this.isAsking = false;
    void this.ask();
  }
}
