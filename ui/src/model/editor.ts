/** Frames as addresses that an editor opens. */

import {Problem} from '../data/source';

/** Where in an address the file and the line go. */
const [FILE, LINE] = ['{file}', '{line}'];

/** Editors that can be chosen as they are. */
export const EDITORS = [
  {name: 'VS Code', pattern: 'vscode://file{file}:{line}'},
  {name: 'PyCharm or IntelliJ IDEA', pattern: 'idea://open?file={file}&line={line}'},
] as const;

/**
 * Schemes that editors have registered. No other is opened: frames come from files of strangers, and a pattern may have been
 * pasted from one.
 */
const SCHEMES = [
  'vscode',
  'vscode-insiders',
  'vscodium',
  'cursor',
  'windsurf',
  'zed',
  'idea',
  'pycharm',
  'jetbrains',
  'subl',
  'txmt',
  'mvim',
  'nvim',
  'emacs',
];

/** A pattern as it was written, if frames can be opened with it. Throws a `Problem` that says why not. */
export function checkedPattern(text: string): string {
  const pattern = text.trim();
  const scheme = /^([a-z][a-z0-9+.-]*):\/\//i.exec(pattern)?.[1].toLowerCase();
  if (!scheme || !SCHEMES.includes(scheme)) {
    throw new Problem({
      error: 'the address must begin with the scheme of an editor',
      hint: `one of ${SCHEMES.map(one => `\`${one}://\``).join(', ')}`,
    });
  }
  if (!pattern.includes(FILE))
    throw new Problem({error: 'the address lacks `{file}`', hint: `as in \`${EDITORS[0].pattern}\``});
  return pattern;
}

/**
 * The address that opens a place in an editor; `undefined` where there is none to open: a path that is not absolute is
 * nowhere, and a library has no lines.
 */
export function editorAddress(pattern: string, file: string, line: number): string | undefined {
  const isWindows = /^[a-z]:[/\\]/i.test(file);
  if (!isWindows && !file.startsWith('/')) return undefined;
  if (/\.so(\.|$)|\.dll$|\.dylib$/i.test(file)) return undefined;
  try {
    checkedPattern(pattern);
    const isInQuery = pattern.slice(0, pattern.indexOf(FILE)).includes('?');
    const path = isWindows ? file.replaceAll('\\', '/') : file;
    const rooted = isWindows ? `/${path}` : path;
    const written = isInQuery ? encodeURIComponent(path) : rooted.split('/').map(encodeURIComponent).join('/');
    const at = Number.isSafeInteger(line) && line > 0 ? line : 1;
    // As functions: `$&` in a file's name would be what was replaced.
    return pattern.replaceAll(FILE, () => written).replaceAll(LINE, () => String(at));
  } catch {
    // Half a character cannot be encoded.
    return undefined;
  }
}
