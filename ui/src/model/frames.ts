/** Frames in words. The program has the same in `crates/analysis/src/place.rs`; `testdata/frames.json` holds both to it. */

/** What is known of a frame: those of native code often lack the file, the line, or both. */
export interface FrameParts {
  readonly name: string;
  readonly file: string;
  readonly line: number;
}

/** Where a frame is: `train.py:12`; empty where nothing is known. */
function placeOf(file: string, line: number): string {
  if (file === '' || file === '??') return '';
  if (line <= 0 || !Number.isSafeInteger(line)) return file;
  // Found without symbols: the line is an offset into the file.
  return file.endsWith('.so') || file.includes('.so.') ? `${file}+0x${line.toString(16)}` : `${file}:${line}`;
}

function withoutDirectories(file: string): string {
  return file.split(/[/\\]/).at(-1) ?? file;
}

/** `/home/me/train.py:12`. */
export function fullPlace({file, line}: Omit<FrameParts, 'name'>): string {
  return placeOf(file, line);
}

/** `/home/me/train.py:12 step`. */
export function fullFrame({name, file, line}: FrameParts): string {
  const place = placeOf(file, line);
  return place === '' ? name : `${place} ${name}`;
}

/** `train.py:12 step`: the file's name without its directories. */
export function shortFrame({name, file, line}: FrameParts): string {
  return fullFrame({name, file: withoutDirectories(file), line});
}

/** `step (train.py:12)`: the name first, where the end may be cut. */
export function frameLabel({name, file, line}: FrameParts): string {
  const place = placeOf(withoutDirectories(file), line);
  return place === '' ? name : `${name} (${place})`;
}

/** `model.py:12` of `model.py:12 forward`, all of what has no place: searches know places, and names, but not both in one. */
export function placeOfWords(words: string): string {
  return /^\S.*?:\d+(?= )/.exec(words)?.[0] ?? words;
}
