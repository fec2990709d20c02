/** The menu of a right click, or of Shift+F10: one at a time, over the whole page. */

import {signal} from '@preact/signals';
import {useEffect, useLayoutEffect, useRef} from 'preact/hooks';

/** One line of a menu. */
export interface MenuItem {
  readonly words: string;
  /** An address that the system opens. Never one that comes from a file as it is: see `editorAddress`. */
  readonly href?: string;
  /** Of a choice: whether it is the present one. */
  readonly isOn?: boolean;
  run?(): void;
}

interface Menu {
  readonly x: number;
  readonly y: number;
  readonly title: string;
  readonly items: readonly MenuItem[];
  /** What had the focus before. */
  readonly from: Element | null;
}

const shown = signal<Menu | null>(null);

/** Opens a menu at a place of the window. */
export function openMenu({x, y}: {x: number; y: number}, title: string, items: readonly MenuItem[]): void {
  if (items.length > 0) shown.value = {x, y, title, items, from: document.activeElement};
}

/** Opens a menu at a right click, instead of the browser's. */
export function menuAt(event: MouseEvent, title: string, items: readonly MenuItem[]): void {
  event.preventDefault();
  openMenu({x: event.clientX, y: event.clientY}, title, items);
}

function close(): void {
  const from = shown.value?.from;
  shown.value = null;
  if (from instanceof HTMLElement) from.focus();
}

/** The open menu, if there is one. */
export function ContextMenu() {
  const menu = shown.value;
  return menu && <OpenMenu key={`${menu.x} ${menu.y} ${menu.title}`} {...menu} />;
}

function OpenMenu({x, y, title, items}: Menu) {
  const host = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    const element = host.current;
    if (!element) return;
    const {width, height} = element.getBoundingClientRect();
    element.style.left = `${Math.max(0, Math.min(x, innerWidth - width - 4))}px`;
    element.style.top = `${Math.max(0, Math.min(y, innerHeight - height - 4))}px`;
    element.querySelector<HTMLElement>('[role^=menuitem]')?.focus();
  }, []);
  useEffect(() => {
    const end = new AbortController();
    const {signal} = end;
    const outside = (event: Event) => {
      if (!host.current?.contains(event.target as Node)) shown.value = null;
    };
    addEventListener('pointerdown', outside, {signal, capture: true});
    addEventListener('wheel', outside, {signal, capture: true, passive: true});
    addEventListener('blur', () => (shown.value = null), {signal});
    addEventListener('resize', () => (shown.value = null), {signal});
    // Windows sends it when the key is let go, for the menu that is open by then.
    addEventListener('contextmenu', event => event.preventDefault(), {signal, capture: true});
    return () => end.abort();
  }, []);
  const onKeyDown = (event: KeyboardEvent) => {
    event.stopPropagation();
    const lines = [...host.current!.querySelectorAll<HTMLElement>('[role^=menuitem]')];
    const at = lines.indexOf(document.activeElement as HTMLElement);
    const to = {
      ArrowDown: (at + 1) % lines.length,
      ArrowUp: (at - 1 + lines.length) % lines.length,
      Home: 0,
      End: lines.length - 1,
    }[event.key];
    if (to !== undefined) lines[to].focus();
    else if (event.key === 'Escape' || event.key === 'Tab') close();
    else return;
    event.preventDefault();
  };
  const choose = (item: MenuItem) => {
    close();
    item.run?.();
  };
  return (
    <div
      ref={host}
      class="menu"
      role="menu"
      tabIndex={-1}
      aria-label={title}
      style={{left: 0, top: 0}}
      onKeyDown={onKeyDown}
    >
      <div class="menu-title faint">{title}</div>
      {items.map(item => (
        <Line key={item.words} item={item} choose={() => choose(item)} />
      ))}
    </div>
  );
}

function Line({item: {words, href, isOn}, choose}: {item: MenuItem; choose(): void}) {
  if (href !== undefined) {
    return (
      <a role="menuitem" href={href} rel="noreferrer" tabIndex={-1} onClick={choose}>
        {words}
      </a>
    );
  }
  const role = isOn === undefined ? 'menuitem' : 'menuitemradio';
  return (
    // biome-ignore lint/a11y/useAriaPropsSupportedByRole: of `menuitemradio` only
    <button type="button" role={role} aria-checked={isOn} tabIndex={-1} onClick={choose}>
      {isOn === undefined ? words : `${isOn ? '● ' : '○ '}${words}`}
    </button>
  );
}
