/** Categories of memory, as they are shown and searched. */

/** The words for a category: `optimizer state` for `optimizer_state`. */
export function categoryWords(category: string): string {
  return category.replaceAll('_', ' ');
}

/** Whether a category is looked for by a text, in its words or as the file has it. */
export function isCategoryFound(category: string, text: string): boolean {
  return categoryWords(category).includes(categoryWords(text.toLowerCase()));
}
