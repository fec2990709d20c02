/** The pages of the documentation that the page names. */

/**
 * The folder of the documentation on the web, with a slash at its end; empty as long as the repository has no public address: then
 * pages are named and not linked.
 */
export const DOCS_ADDRESS = '';

/** The page of a finding: its name in the repository, and its address if there is one. */
export function findingPage(id: string, base = DOCS_ADDRESS): {name: string; address: string | undefined} {
  const file = `findings/${id}.md`;
  return {name: `docs/${file}`, address: base === '' ? undefined : base + file};
}
