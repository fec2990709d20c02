/** What can be done with a frame: open it, copy it, look for it; and with which editor frames are opened. */

import {signal} from '@preact/signals';
import {useEffect, useRef} from 'preact/hooks';
import {Problem} from '../data/source';
import {checkedPattern, EDITORS, editorAddress} from '../model/editor';
import {type FrameParts, fullFrame, fullPlace, shortFrame} from '../model/frames';
import * as store from '../state/store';
import {copyText, tell} from './copy';
import {type MenuItem, menuAt} from './menu';

const SETTING = 'highwater.editor';

/** The pattern that frames are opened with; empty to copy their path. */
const editor = signal(readSetting());

function readSetting(): string {
  try {
    return checkedPattern(localStorage.getItem(SETTING) ?? '');
  } catch {
    // Not set, not allowed to a page from a file, or not the address of an editor.
    return '';
  }
}

function chooseEditor(pattern: string): void {
  editor.value = pattern;
  try {
    localStorage.setItem(SETTING, pattern);
  } catch {
    // It is chosen for as long as the page is open.
  }
}

/** A frame: a click opens it in the chosen editor, or copies where it is. */
export function FrameLink({frame, stack}: {frame: FrameParts; stack: readonly FrameParts[]}) {
  const address = editor.value && editorAddress(editor.value, frame.file, frame.line);
  const words = shortFrame(frame);
  const onContextMenu = (event: MouseEvent) => menuAt(event, words, frameItems(frame, stack));
  const title = `${fullPlace(frame) || frame.name}\nclick: ${address ? 'open it in the editor' : 'copy its path'}; right click: more`;
  if (address) {
    return (
      <a class="frame-link" href={address} rel="noreferrer" title={title} data-menu onContextMenu={onContextMenu}>
        {words}
      </a>
    );
  }
  return (
    <button
      type="button"
      class="plain frame-link"
      title={title}
      data-menu
      onClick={() => void copyText(fullPlace(frame) || frame.name)}
      onContextMenu={onContextMenu}
    >
      {words}
    </button>
  );
}

/** What a frame's menu has. `stack` is innermost first; empty where it is not known. */
export function frameItems(frame: FrameParts, stack: readonly FrameParts[]): MenuItem[] {
  const place = fullPlace(frame);
  const query = searchOf(place || frame.name);
  return [
    ...openItems(frame),
    ...(place ? [{words: 'Copy path and line', run: () => void copyText(place)}] : []),
    {words: 'Copy name', run: () => void copyText(frame.name)},
    ...(stack.length > 0 ? [{words: 'Copy stack', run: () => void copyText(stack.map(fullFrame).join('\n'))}] : []),
    ...searchItems(query),
    ...editorItems(),
  ];
}

/** Opens a frame in the editors there are; none where it has no whole path. */
export function openItems({file, line}: FrameParts): MenuItem[] {
  const own = editor.value && !EDITORS.some(({pattern}) => pattern === editor.value);
  const all = [...EDITORS, ...(own ? [{name: 'my editor', pattern: editor.value}] : [])];
  return all.flatMap(({name, pattern}) => {
    const href = editorAddress(pattern, file, line);
    return href ? [{words: `Open in ${name}`, href}] : [];
  });
}

/** Looks for something, here and among the stacks. */
export function searchItems(query: string): MenuItem[] {
  const search = () => {
    store.query.value = query;
  };
  return [
    {words: 'Search for it', run: search},
    {
      words: 'Stacks of this',
      run: () => {
        search();
        store.setViewOption('stacks.show', 'flame');
        store.view.value = 'stacks';
      },
    },
  ];
}

/** A text as a term of a search. */
export function searchOf(text: string): string {
  return `"${text.replaceAll('"', '')}"`;
}

function editorItems(): MenuItem[] {
  const choice = (words: string, pattern: string): MenuItem => ({
    words,
    isOn: editor.value === pattern,
    run: () => chooseEditor(pattern),
  });
  const isOwn = editor.value !== '' && !EDITORS.some(({pattern}) => pattern === editor.value);
  return [
    choice('A click on a frame copies its path', ''),
    ...EDITORS.map(({name, pattern}) => choice(`A click opens it in ${name}`, pattern)),
    {words: 'A click opens it in another editor …', isOn: isOwn, run: () => (isAsking.value = true)},
  ];
}

const isAsking = signal(false);

/** Asks for the address of an editor. */
export function EditorDialog() {
  const dialog = useRef<HTMLDialogElement>(null);
  const said = useRef<HTMLParagraphElement>(null);
  useEffect(() => {
    if (isAsking.value) dialog.current?.showModal();
  }, [isAsking.value]);
  if (!isAsking.value) return null;
  const onSubmit = (event: SubmitEvent) => {
    const text = new FormData(event.currentTarget as HTMLFormElement).get('pattern');
    try {
      chooseEditor(checkedPattern(String(text)));
      tell('a click on a frame opens it in your editor');
    } catch (error) {
      event.preventDefault();
      const {message, hint} = Problem.from(error);
      if (said.current) said.current.textContent = hint ? `${message}: ${hint}` : message;
    }
  };
  return (
    <dialog ref={dialog} class="help editor" aria-label="Editor" onClose={() => (isAsking.value = false)}>
      <form method="dialog" onSubmit={onSubmit}>
        <label>
          Address that opens a frame, with {'{file}'} and {'{line}'}
          <input name="pattern" required value={editor.value || EDITORS[0].pattern} />
        </label>
        <p ref={said} class="problem" role="alert" />
        <button type="submit">Use it</button>{' '}
        <button type="button" onClick={() => dialog.current?.close()}>
          Cancel
        </button>
      </form>
    </dialog>
  );
}
