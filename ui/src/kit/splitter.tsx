/** A border between two parts that is dragged to make one of them wider; the width is kept where the browser keeps anything. */

import {type Signal, useSignal} from '@preact/signals';

/** A width in CSS pixels, and how far it can be changed. The page shows less where the window is too narrow for it. */
export interface PanelWidth {
  readonly name: string;
  readonly width: Signal<number>;
  readonly initial: number;
  readonly least: number;
}

/** More of the window than this is not taken. */
const MOST_PART = 0.7;
const STEP_CSS = 24;

/** The width of a panel: as it was left, or as it is at first. */
export function usePanelWidth(name: string, initial: number, least: number): PanelWidth {
  const width = useSignal(Math.max(remembered(name) ?? initial, least));
  return {name, width, initial, least};
}

interface SplitterProps {
  readonly panel: PanelWidth;
  /** On which side of the border the panel is. */
  readonly side: 'left' | 'right';
  readonly label: string;
}

export function Splitter({panel, side, label}: SplitterProps) {
  const {width, name, least, initial} = panel;
  const set = (next: number) => {
    width.value = within(next, least);
    remember(name, width.value);
  };
  const sign = side === 'left' ? 1 : -1;
  const onPointerDown = (event: PointerEvent) => {
    event.preventDefault();
    const border = event.currentTarget as HTMLElement;
    const start = {x: event.clientX, width: width.value};
    border.setPointerCapture(event.pointerId);
    const onMove = (move: PointerEvent) => set(start.width + sign * (move.clientX - start.x));
    border.addEventListener('pointermove', onMove);
    border.addEventListener('lostpointercapture', () => border.removeEventListener('pointermove', onMove), {
      once: true,
    });
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const by = {ArrowLeft: -1, ArrowRight: 1}[event.key];
    if (by === undefined) return;
    event.preventDefault();
    // The same key moves the picture.
    event.stopPropagation();
    set(width.value + by * sign * STEP_CSS);
  };
  return (
    <hr
      class="splitter"
      aria-orientation="vertical"
      aria-label={label}
      aria-valuenow={width.value}
      aria-valuemin={least}
      tabIndex={0}
      title={`${label}: drag, or press ← and →; double click resets it`}
      onPointerDown={onPointerDown}
      onKeyDown={onKeyDown}
      onDblClick={() => set(initial)}
    />
  );
}

function within(width: number, least: number): number {
  return Math.round(Math.max(least, Math.min(width, globalThis.innerWidth * MOST_PART)));
}

const PREFIX = 'highwater.';

/** A number that was kept; `undefined` where none was, or the page may keep nothing, as one from a file. */
function remembered(name: string): number | undefined {
  try {
    const kept = Number(localStorage.getItem(PREFIX + name) ?? Number.NaN);
    return Number.isFinite(kept) ? kept : undefined;
  } catch {
    return undefined;
  }
}

function remember(name: string, value: number): void {
  try {
    localStorage.setItem(PREFIX + name, String(value));
  } catch {
    // It holds until the page is closed.
  }
}
