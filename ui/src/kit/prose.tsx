/** Text with code in it. */

/** Text with `code` between backticks: as elements, never as markup. */
export function Prose({text}: {text: string}) {
  return <>{text.split('`').map((part, i) => (i % 2 === 0 ? part : <code key={i}>{part}</code>))}</>;
}
