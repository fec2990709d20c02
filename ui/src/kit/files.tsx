/** Files that a page is given: dropped on it, or chosen. */

import {useSignal} from '@preact/signals';
import type {ComponentChildren} from 'preact';
import {useRef} from 'preact/hooks';

/** The whole page, on which a file may be dropped. */
export function DropPage({open, children}: {open: (file: File) => void; children: ComponentChildren}) {
  const isDropping = useSignal(false);
  return (
    <div
      class={isDropping.value ? 'page dropping' : 'page'}
      onDragOver={event => {
        event.preventDefault();
        isDropping.value = true;
      }}
      onDragLeave={() => (isDropping.value = false)}
      onDrop={event => {
        event.preventDefault();
        isDropping.value = false;
        const dropped = event.dataTransfer?.files[0];
        if (dropped) open(dropped);
      }}
    >
      {children}
    </div>
  );
}

interface FileButtonProps {
  open: (file: File) => void;
  title: string;
  label?: string;
  class?: string;
  children: ComponentChildren;
}

/** Asks for a file; the same may be chosen again. */
export function FileButton({open, title, label, class: look, children}: FileButtonProps) {
  const input = useRef<HTMLInputElement>(null);
  return (
    <>
      <button type="button" class={look} title={title} aria-label={label} onClick={() => input.current?.click()}>
        {children}
      </button>
      <input
        ref={input}
        type="file"
        hidden
        onChange={event => {
          const chosen = event.currentTarget.files?.[0];
          if (chosen) open(chosen);
          event.currentTarget.value = '';
        }}
      />
    </>
  );
}
