/** The entries around the cursor: only those that are visible exist. */

import {useComputed, useSignal, useSignalEffect} from '@preact/signals';
import {useEffect, useMemo, useRef} from 'preact/hooks';
import type {PanelWidth} from '../../kit/splitter';
import {latest} from '../../model/latest';
import {address, binary, count} from '../../model/units';
import {engine, type Opened, opened, shownEntry} from '../../state/session';
import * as store from '../../state/store';
import type {EntryLine} from '../../worker/entries';

const LINE_CSS = 20;

/**
 * The list follows once its place has rested for so long, in milliseconds: the layout of forty lines leaves a megabyte of garbage, and
 * nobody reads them while dragging.
 */
const REST_MS = 100;

export function EntryList({device, panel}: {device: Opened; panel: PanelWidth}) {
  const host = useRef<HTMLDivElement>(null);
  const visible = useSignal(20);
  /** The uppermost entry. */
  const top = useSignal(0);
  const lines = useSignal<EntryLine[]>([]);
  // A signal of its own: while the cursor is elsewhere, nothing of the list changes.
  const chosen = useComputed(() => lines.value.findIndex(({entry}) => entry === shownEntry.value));
  const last = Math.max(0, device.device.entries - visible.value);

  useEffect(() => {
    const element = host.current;
    if (!element) return;
    const observer = new ResizeObserver(() => {
      visible.value = Math.max(3, Math.floor(element.clientHeight / LINE_CSS));
    });
    observer.observe(element);
    const onWheel = (event: WheelEvent) => {
      event.preventDefault();
      const by = Math.sign(event.deltaY) * Math.max(1, Math.round(Math.abs(event.deltaY) / LINE_CSS));
      top.value = Math.min(Math.max(0, top.value + by), Math.max(0, device.device.entries - visible.value));
    };
    element.addEventListener('wheel', onWheel, {passive: false});
    return () => {
      observer.disconnect();
      element.removeEventListener('wheel', onWheel);
    };
  }, [device]);

  // The cursor stays in sight.
  useSignalEffect(() => {
    const entry = shownEntry.value;
    const rows = visible.value;
    const from = top.peek();
    const isInSight = entry >= from && entry < from + rows;
    if (!isInSight)
      top.value = Math.min(Math.max(0, entry - Math.floor(rows / 2)), Math.max(0, device.device.entries - rows));
  });

  const show = useMemo(() => {
    const ask = ({from, to}: {from: number; to: number}) =>
      engine()
        .entryLines(from, to)
        .catch(() => null);
    const settle = (answer: EntryLine[] | null) => {
      if (answer && opened.peek() === device) lines.value = answer;
    };
    return latest(ask, settle);
  }, [device]);
  useSignalEffect(() => {
    const [from, to] = [top.value, top.value + visible.value];
    if (opened.value !== device) return;
    const timer = setTimeout(() => show({from, to}), lines.peek().length > 0 ? REST_MS : 0);
    return () => clearTimeout(timer);
  });

  return (
    <div class="entries" style={{'--width': `${panel.width.value}px`, '--number': `${count(device.entries).length}ch`}}>
      <div ref={host} class="lines" role="listbox" aria-label="Entries" tabIndex={-1}>
        {
          // By their place, not their entry: scrubbing shows other entries in every frame, and each line that is made anew is garbage.
          lines.value.map((line, place) => (
            <Line key={place} line={line} isChosen={place === chosen.value} />
          ))
        }
      </div>
      <input
        type="range"
        class="rail"
        aria-label="Scroll the entries"
        min={0}
        max={last}
        value={top.value}
        onInput={event => {
          top.value = Number(event.currentTarget.value);
        }}
      />
      <Whole line={lines.value[chosen.value]} />
    </div>
  );
}

/** The call site of the chosen entry, whose name may be cut in the list. */
function Whole({line}: {line: EntryLine | undefined}) {
  return <div class="whole-site">{line?.site ?? ''}</div>;
}

function Line({line, isChosen}: {line: EntryLine; isChosen: boolean}) {
  const {entry, action, bytes, row} = line;
  const place = line.address === undefined ? '' : address(line.address);
  return (
    <div
      role="option"
      tabIndex={-1}
      aria-selected={isChosen}
      class={isChosen ? `line chosen ${action}` : `line ${action}`}
      title={`${action} ${place} ${count(bytes)} bytes\n${line.site}`}
      onPointerDown={() => {
        store.cursor.value = entry;
        if (row !== undefined) store.pinned.value = row;
      }}
    >
      <span class="number">{count(entry)}</span>
      <span class="action">{action}</span>
      <span class="size">{bytes > 0 ? binary(bytes) : ''}</span>
      <span class="site">{line.site}</span>
    </div>
  );
}
