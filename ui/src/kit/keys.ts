/** The keyboard: every command with its keys, its words for the help card, and what it does. */

import {signal} from '@preact/signals';

/** A command. */
export interface Command {
  /**
   * Letters by their place on a US keyboard, signs by what they are, others as `KeyboardEvent.key`; several keys do the
   * same.
   */
  readonly keys: readonly string[];
  readonly help: string;
  run(): void;
}

/** What the pointer does, in words. */
export interface Gesture {
  readonly hands: string;
  readonly help: string;
}

/** Commands under a heading of the help card. */
export interface CommandGroup {
  readonly title: string;
  readonly commands: readonly Command[];
  /** What the pointer does in the view. */
  readonly gestures?: readonly Gesture[];
}

const groups = new Set<() => CommandGroup>();

/** Adds commands for as long as a view is there. Gives what takes them away. */
export function addCommands(group: () => CommandGroup): () => void {
  groups.add(group);
  return () => groups.delete(group);
}

/** All commands that can be given now; those added last come first. */
export function commandGroups(): CommandGroup[] {
  return [...groups].map(group => group()).reverse();
}

/** Listens to the keyboard. Gives what ends it. */
export function listenToKeys(): () => void {
  const onKey = (event: KeyboardEvent) => {
    if (event.defaultPrevented) return;
    const target = event.target as HTMLElement | null;
    const isTyping = target?.closest('input, textarea, select, [contenteditable]');
    if (isTyping && event.key !== 'Escape') return;
    if (target?.closest('button, a, [role=tab], summary') && (event.key === 'Enter' || event.key === ' ')) return;
    const holder = isMenuKey(event) ? target?.closest('[data-menu]') : null;
    if (holder) {
      // A browser's own event for the key comes without a place, or not at all.
      const {left, bottom} = holder.getBoundingClientRect();
      const at = {bubbles: true, cancelable: true, clientX: left + 8, clientY: bottom};
      event.preventDefault();
      holder.dispatchEvent(new MouseEvent('contextmenu', at));
      return;
    }
    const all = commandGroups().flatMap(({commands}) => commands);
    for (const name of namesOf(event)) {
      const command = all.find(({keys}) => keys.includes(name));
      if (!command) continue;
      event.preventDefault();
      command.run();
      return;
    }
  };
  addEventListener('keydown', onKey);
  void readLayout();
  return () => removeEventListener('keydown', onKey);
}

/** Signs that commands have, by their places on a US keyboard: `[plain, with Shift]`. */
const SIGNS: Record<string, readonly [string, string]> = {
  Slash: ['/', '?'],
  BracketLeft: ['[', '{'],
  BracketRight: [']', '}'],
  Minus: ['-', '_'],
  Equal: ['=', '+'],
};

/** Signs for which some layouts want a modifier: AltGr+8 is `[` in German. */
const WITH_MODIFIER = '/?[]';

/** Shift+F10, or the key for it that some keyboards have. */
function isMenuKey({key, shiftKey}: Pick<KeyboardEvent, 'key' | 'shiftKey'>): boolean {
  return key === 'ContextMenu' || (key === 'F10' && shiftKey);
}

/** What a key press can stand for, the likeliest first; empty for a shortcut of the browser. */
export function namesOf(
  event: Pick<KeyboardEvent, 'key' | 'code' | 'shiftKey' | 'ctrlKey' | 'metaKey' | 'altKey' | 'getModifierState'>,
): string[] {
  const {key, code} = event;
  const isAltGr = event.getModifierState('AltGraph') || (event.altKey && !event.ctrlKey);
  if (event.metaKey || (event.ctrlKey && !isAltGr)) return [];
  if (isMenuKey(event)) return ['ContextMenu'];
  if (isAltGr) return key.length === 1 && WITH_MODIFIER.includes(key) ? [key] : [];
  // A letter is where it is, whatever the layout has there, and Caps Lock does not make it a capital.
  const letter = /^Key([A-Z])$/.exec(code)?.[1];
  if (letter) return [event.shiftKey ? letter : letter.toLowerCase()];
  if (/^\p{L}$/u.test(key)) {
    // A letter where a US keyboard has a sign: `m` of a French one, `х` of a Russian one.
    const placed = SIGNS[code]?.[event.shiftKey ? 1 : 0];
    return [event.shiftKey ? key.toUpperCase() : key.toLowerCase(), ...(placed ? [placed] : [])];
  }
  const digit = /^Digit(\d)$/.exec(code)?.[1];
  const placed = digit ?? SIGNS[code]?.[event.shiftKey ? 1 : 0];
  return placed && placed !== key ? [key, placed] : [key];
}

/** What stands on the keys of letters, where the browser tells. */
const layout = signal<ReadonlyMap<string, string>>(new Map());

async function readLayout(): Promise<void> {
  const {keyboard} = navigator as {keyboard?: {getLayoutMap?(): Promise<ReadonlyMap<string, string>>}};
  try {
    layout.value = (await keyboard?.getLayoutMap?.()) ?? layout.value;
  } catch {
    // Not told in a frame: the card has the letters of a US keyboard.
  }
}

/** How a key is written on the help card: a letter as it stands on the key, if it is a Latin one. */
export function keyName(key: string): string {
  const names: Record<string, string> = {
    ArrowLeft: '←',
    ArrowRight: '→',
    ArrowUp: '↑',
    ArrowDown: '↓',
    Escape: 'Esc',
    ' ': 'Space',
    ContextMenu: 'Shift+F10',
  };
  if (!/^[a-z]$/i.test(key)) return names[key] ?? key;
  const printed = layout.value.get(`Key${key.toUpperCase()}`);
  if (!printed || !/^[a-z]$/i.test(printed)) return key;
  return key === key.toUpperCase() ? printed.toUpperCase() : printed;
}
