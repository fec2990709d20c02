/** Copying text, also where the browser grants no clipboard to a page from a file. */

import {signal} from '@preact/signals';

/** What was done last, for the line that says so. */
export const notice = signal('');

let timer: ReturnType<typeof setTimeout> | undefined;

/** Shows a line for some seconds. */
export function tell(text: string): void {
  notice.value = text;
  clearTimeout(timer);
  timer = setTimeout(() => {
    notice.value = '';
  }, 4000);
}

/** Copies a text, and says so. */
export async function copyText(text: string, said = 'copied'): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = document.createElement('textarea');
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand('copy');
    area.remove();
  }
  tell(said);
}
