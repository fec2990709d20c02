/** Text with code in it. */

import {Fragment} from 'preact';

/**
 * Text with `code` between backticks: as elements, never as markup. A number and its unit stay on one line, and so do code and the
 * bracket or the punctuation beside it.
 */
export function Prose({text}: {text: string}) {
  const parts = partsOfProse(text);
  return (
    <>
      {parts.map(({words, before, code, after}, i) => (
        <Fragment key={i}>
          <Words text={words} />
          {code !== undefined && (
            <span class={before || after ? 'joined' : undefined}>
              {before}
              <Code text={code} />
              {after}
            </span>
          )}
        </Fragment>
      ))}
    </>
  );
}

/** Words, and the code after them with what must not be parted from it. */
export interface ProsePart {
  readonly words: string;
  readonly before?: string;
  readonly code?: string;
  readonly after?: string;
}

/** Text cut into words and the code after them: `a (`, `b` and `).` are the words `a `, then `(`, `b` and `).`. */
export function partsOfProse(text: string): ProsePart[] {
  const pieces = text.split('`');
  const parts: ProsePart[] = [];
  let after = '';
  for (let i = 0; i < pieces.length; i += 2) {
    const words = pieces[i].slice(after.length);
    const code = pieces[i + 1];
    if (code === undefined) {
      parts.push({words});
      break;
    }
    const before = /[([]*$/.exec(words)?.[0] ?? '';
    after = /^[)\],.;:!?]*/.exec(pieces[i + 2] ?? '')?.[0] ?? '';
    parts.push({words: words.slice(0, words.length - before.length), before, code, after});
  }
  return parts;
}

function Words({text}: {text: string}) {
  return (
    <>
      {piecesOfWords(text).map((piece, i) =>
        i % 2 === 0 ? (
          piece
        ) : (
          <span key={i} class="quantity">
            {piece}
          </span>
        ),
      )}
    </>
  );
}

/** Text cut around numbers with units, which are every second piece: `up to `, `1.5 GiB`, ` more`. */
export function piecesOfWords(text: string): string[] {
  return text.split(/(\d[\d.,]* (?:[KMGTP]iB|GB|B|%|ms|µs|s)(?!\w))/);
}

/** Code that breaks between its names where it is wider than its place, and not within them. */
export function Code({text}: {text: string}) {
  return (
    <code>
      <Breakable text={text} />
    </code>
  );
}

/** The same without the look of code. */
export function Breakable({text}: {text: string}) {
  return (
    <>
      {piecesOfCode(text).map((piece, i) => (
        <Fragment key={i}>
          {i > 0 && <wbr />}
          {piece}
        </Fragment>
      ))}
    </>
  );
}

/** Code cut behind dots, underscores, commas, opening brackets and signs of equality: `torch.`, `cuda.`, `set_`. */
export function piecesOfCode(text: string): string[] {
  return text.split(/(?<=[._,(=:/])(?=\w)/);
}

/** A fragment as a sentence: the first letter large, a full stop at its end. */
export function asSentence(fragment: string): string {
  const text = fragment.trim();
  if (text === '') return text;
  return capitalised(text) + (/[.!?:]$/.test(text) ? '' : '.');
}

/** A fragment as a sentence begins; code stays as it is, and a name such as cuBLAS. */
export function capitalised(fragment: string): string {
  const [word] = fragment.split(' ', 1);
  if (/^.+\p{Lu}/u.test(word)) return fragment;
  return fragment.slice(0, 1).toUpperCase() + fragment.slice(1);
}
