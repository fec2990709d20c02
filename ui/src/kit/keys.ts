/** The keyboard: every command with its keys, its words for the help card, and what it does. */

/** A command. */
export interface Command {
  /** As `KeyboardEvent.key`; several keys do the same. */
  readonly keys: readonly string[];
  readonly help: string;
  run(): void;
}

/** Commands under a heading of the help card. */
export interface CommandGroup {
  readonly title: string;
  readonly commands: readonly Command[];
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
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const target = event.target as HTMLElement | null;
    const isTyping = target?.closest('input, textarea, select, [contenteditable]');
    if (isTyping && event.key !== 'Escape') return;
    if (target?.closest('button, a, [role=tab], summary') && (event.key === 'Enter' || event.key === ' ')) return;
    for (const {commands} of commandGroups()) {
      const command = commands.find(({keys}) => keys.includes(event.key));
      if (!command) continue;
      event.preventDefault();
      command.run();
      return;
    }
  };
  addEventListener('keydown', onKey);
  return () => removeEventListener('keydown', onKey);
}

/** How a key is written on the help card. */
export function keyName(key: string): string {
  const names: Record<string, string> = {
    ArrowLeft: '←',
    ArrowRight: '→',
    ArrowUp: '↑',
    ArrowDown: '↓',
    Escape: 'Esc',
    ' ': 'Space',
  };
  return names[key] ?? key;
}
