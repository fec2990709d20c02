/** The allocator's state: segments and their blocks after one entry, with the entries beside it. */

import {type ReadonlySignal, useSignal} from '@preact/signals';
import {useEffect, useRef} from 'preact/hooks';
import {AllocationLines} from '../../kit/allocation';
import {openAllocationMenu} from '../../kit/allocation-menu';
import {FloatingCard} from '../../kit/floating';
import {addCommands, type CommandGroup} from '../../kit/keys';
import {OutsideChoice, OutsideLines, outsideName} from '../../kit/outside';
import {registerPicture, SaveMenu} from '../../kit/save';
import {Splitter, usePanelWidth} from '../../kit/splitter';
import {asInMessages, binary, count, counted} from '../../model/units';
import {engine, type Opened, shownEntry} from '../../state/session';
import * as store from '../../state/store';
import type {RowDetails} from '../../worker/details';
import type {OutsideDetails} from '../../worker/outside';
import type {SegmentDetails} from '../../worker/segments';
import type {StatePicture} from '../../worker/state';
import {SegmentLines} from '../segments/segment-lines';
import {EntryList} from './entry-list';
import {type StateHit, StateMap} from './map';
import {Scrubber} from './scrubber';

/** What is known of the place under the pointer. */
type Said = {block: RowDetails} | {outside: OutsideDetails} | {segment: SegmentDetails; isFree: boolean};

type Hover = {x: number; y: number} & Said;

/** Asks about a place; `null` if another file was opened meanwhile. */
async function describe(hit: StateHit): Promise<Said | null> {
  const entry = shownEntry.value;
  try {
    if (hit.kind === 'block') return {block: await engine().describe(hit.row, entry)};
    if (hit.kind === 'outside') return {outside: await engine().describeOutside(hit.row)};
    return {segment: await engine().describeSegment(hit.segment, entry), isFree: hit.kind === 'free'};
  } catch {
    return null;
  }
}

export function StateView({device}: {device: Opened}) {
  const host = useRef<HTMLDivElement>(null);
  const map = useRef<StateMap | null>(null);
  const picture = useSignal<StatePicture | null>(null);
  const hover = useSignal<Hover | null>(null);
  const list = usePanelWidth('entries', innerWidth < 1400 ? 432 : 500, 180);

  useEffect(() => {
    if (!host.current) return;
    const made = new StateMap(host.current, device);
    map.current = made;
    made.onPicture = made => {
      picture.value = made;
    };
    const ends = [
      addCommands(() => commands(device, made)),
      registerPicture(() => ({canvas: made.toCanvas(), name: `state-${shownEntry.value}`})),
      () => made.stop(),
    ];
    return () => {
      for (const end of ends) end();
    };
  }, [device]);

  /** The place that was pointed at last, while an earlier one is asked about. */
  const next = useRef<PointerEvent | null>(null);
  const isAsking = useRef(false);
  const onMove = async (event: PointerEvent) => {
    next.current = event;
    if (isAsking.current) return;
    isAsking.current = true;
    while (next.current) {
      const {clientX: x, clientY: y} = next.current;
      next.current = null;
      const box = host.current?.getBoundingClientRect();
      const hit = box && map.current?.hit(x - box.left, y - box.top);
      const said = hit ? await describe(hit) : null;
      hover.value = said && {x, y, ...said};
    }
    isAsking.current = false;
  };
  const onLeave = () => {
    next.current = null;
    hover.value = null;
  };
  const onClick = (event: MouseEvent) => {
    const box = host.current!.getBoundingClientRect();
    const hit = map.current?.hit(event.clientX - box.left, event.clientY - box.top);
    store.pinned.value = hit?.kind === 'block' ? hit.row : null;
  };

  const onContextMenu = (event: MouseEvent) => {
    event.preventDefault();
    const box = host.current!.getBoundingClientRect();
    const hit = map.current?.hit(event.clientX - box.left, event.clientY - box.top);
    if (hit?.kind !== 'block') return;
    onLeave();
    const isPinned = hit.row === store.pinned.value;
    const pin = () => {
      store.pinned.value = hit.row;
    };
    const place = {x: event.clientX, y: event.clientY};
    void openAllocationMenu(hit.row, shownEntry.value, place, isPinned ? undefined : pin);
  };

  const shown = hover.value;
  return (
    <section class="view state" aria-label="Allocator state">
      <div class="toolbar">
        <Totals device={device} picture={picture} />
        <span class="spring" />
        <OutsideChoice device={device} ways={['shown', 'hidden']} />
        <SaveMenu />
      </div>
      <Scrubber device={device} />
      <div class="beside">
        <EntryList device={device} panel={list} />
        <Splitter panel={list} side="left" label="Width of the list of entries" />
        <div
          ref={host}
          class="plot"
          role="img"
          aria-label="Map of the segments: blocks in colour, free memory grey. The totals are above it, the active memory beside it."
          onPointerMove={event => void onMove(event)}
          onPointerLeave={onLeave}
          onClick={onClick}
          onContextMenu={onContextMenu}
        />
      </div>
      {shown && (
        <FloatingCard x={shown.x} y={shown.y}>
          {'block' in shown ? (
            <AllocationLines details={shown.block} />
          ) : 'outside' in shown ? (
            <OutsideLines device={device} details={shown.outside} />
          ) : (
            <SegmentLines details={shown.segment} isFree={shown.isFree} />
          )}
        </FloatingCard>
      )}
    </section>
  );
}

/** By itself, for it changes with every picture. */
function Totals({device, picture}: {device: Opened; picture: ReadonlySignal<StatePicture | null>}) {
  if (!picture.value) return <b>after entry {count(shownEntry.value)}</b>;
  const {entry, totals} = picture.value;
  const error = device.device.marks.find(mark => mark.kind === 'oom' && mark.entry === entry);
  return (
    <>
      <b>after entry {count(entry)}</b>
      {device.reservedMaxBytes > 0 && (
        <>
          <span title={`${count(totals.activeBytes)} bytes`}>
            {binary(totals.activeBytes)} active in {counted(totals.blocks, 'block')}
            {totals.pendingBytes > 0 && `, of which ${binary(totals.pendingBytes)} awaits its free`}
          </span>
          <span title={`${count(totals.reservedBytes)} bytes`}>
            {binary(totals.reservedBytes)} reserved in {counted(totals.segments, 'segment')}
          </span>
          <span title={`${count(totals.largestFreeBytes)} bytes`}>
            largest free block {binary(totals.largestFreeBytes)}
          </span>
        </>
      )}
      {totals.outsideBytes > 0 && (
        <span title="Contexts, code, streams, graphs and pools of the driver are part of it and have no address of their own">
          {binary(totals.outsideBytes)} {outsideName(device)}
        </span>
      )}
      {error && (
        <span class="danger" role="status">
          out of memory: {error.bytes === undefined ? 'the request' : asInMessages(error.bytes)} did not fit
        </span>
      )}
    </>
  );
}

function commands(device: Opened, map: StateMap): CommandGroup {
  const last = device.entries - 1;
  const step = (by: number) => () => {
    store.cursor.value = Math.min(Math.max(0, shownEntry.value + by), last);
  };
  const go = (entry: number) => () => {
    store.cursor.value = entry;
  };
  return {
    title: 'State',
    gestures: [
      {hands: 'wheel', help: 'move up and down'},
      {hands: 'Ctrl wheel', help: 'enlarge'},
      {hands: 'click', help: 'pin a block'},
      {hands: 'right click', help: 'copy, search, stacks of it'},
    ],
    commands: [
      {keys: ['ArrowDown', 'ArrowRight', 'd'], help: 'next entry', run: step(1)},
      {keys: ['ArrowUp', 'ArrowLeft', 'a'], help: 'previous entry', run: step(-1)},
      {keys: ['PageDown', 'D'], help: '100 entries on', run: step(100)},
      {keys: ['PageUp', 'A'], help: '100 entries back', run: step(-100)},
      {keys: ['Home'], help: 'first entry', run: go(0)},
      {keys: ['End'], help: 'last entry', run: go(last)},
      {keys: ['p'], help: 'the peak', run: go(device.peakEntry)},
      {keys: ['o'], help: 'next out-of-memory error', run: () => nextError(device)},
      {keys: ['+', 'w'], help: 'larger', run: () => map.zoomBy(1.5)},
      {keys: ['-', 's'], help: 'smaller', run: () => map.zoomBy(1 / 1.5)},
      {keys: ['0'], help: 'fit', run: () => map.zoomBy(0)},
    ],
  };
}

function nextError(device: Opened): void {
  const errors = device.device.marks.filter(({kind}) => kind === 'oom');
  const next = errors.find(({entry}) => entry > shownEntry.value) ?? errors[0];
  if (next) store.cursor.value = next.entry;
}
