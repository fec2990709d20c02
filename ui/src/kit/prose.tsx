/** Text with code in it. */

/** Text with `code` between backticks: as elements, never as markup. */
export function Prose({text}: {text: string}) {
  return <>{text.split('`').map((part, i) => (i % 2 === 0 ? part : <code key={i}>{part}</code>))}</>;
}

/** A fragment as a sentence: the first letter large, a full stop at its end. */
export function asSentence(fragment: string): string {
  const text = fragment.trim();
  if (text === '') return text;
  return capitalised(text) + (/[.!?:]$/.test(text) ? '' : '.');
}

/** A fragment as a sentence begins; code stays as it is. */
export function capitalised(fragment: string): string {
  return fragment.slice(0, 1).toUpperCase() + fragment.slice(1);
}
