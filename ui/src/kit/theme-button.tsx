/** The button that goes from the system's shade to light to dark. */

import * as store from '../state/store';

export function ThemeButton() {
  const next = {system: 'light', light: 'dark', dark: 'system'} as const;
  const sign = {system: '◐', light: '☀', dark: '☾'} as const;
  const theme = store.theme.value;
  return (
    <button
      type="button"
      class="plain"
      title={`Theme: ${theme}. Change to ${next[theme]}`}
      aria-label={`Theme: ${theme}`}
      onClick={() => (store.theme.value = next[theme])}
    >
      {sign[theme]}
    </button>
  );
}
