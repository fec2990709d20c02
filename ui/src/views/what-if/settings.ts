/** PYTORCH_CUDA_ALLOC_CONF as text, and single settings in it. */

/** `KEY:VALUE` pairs, in order. A value in brackets may hold commas and colons. */
export function pairsOf(conf: string): [key: string, value: string][] {
  const pairs: [string, string][] = [];
  let depth = 0;
  let part = '';
  const finish = () => {
    const text = part.trim();
    const colon = text.indexOf(':');
    if (text !== '') pairs.push(colon < 0 ? [text, ''] : [text.slice(0, colon).trim(), text.slice(colon + 1).trim()]);
    part = '';
  };
  for (const sign of conf) {
    if (sign === '[') depth++;
    if (sign === ']') depth--;
    if (sign === ',' && depth <= 0) finish();
    else part += sign;
  }
  finish();
  return pairs;
}

/** What a key is set to; `''` if it is not. */
export function settingOf(conf: string, key: string): string {
  return pairsOf(conf).findLast(([one]) => one === key)?.[1] ?? '';
}

/** The settings with a key set to a value, or without it if the value is `''`. */
export function withSetting(conf: string, key: string, value: string): string {
  const pairs = pairsOf(conf);
  const others = pairs.filter(([one]) => one !== key);
  const at = pairs.findIndex(([one]) => one === key);
  if (value !== '') others.splice(at < 0 ? others.length : at, 0, [key, value]);
  return others.map(([one, set]) => (set === '' ? one : `${one}:${set}`)).join(',');
}

/** Settings that are often tried, with values. */
export const QUICK_CHOICES: readonly {key: string; values: readonly string[]}[] = [
  {key: 'expandable_segments', values: ['True']},
  {key: 'max_split_size_mb', values: ['32', '64', '128', '256', '512']},
  {key: 'roundup_power2_divisions', values: ['2', '4', '8', '16']},
  {key: 'garbage_collection_threshold', values: ['0.6', '0.7', '0.8', '0.9']},
];

/** The line that sets them in a shell. */
export function exportLine(conf: string): string {
  const value = /^[\w:.,=-]*$/.test(conf) ? conf : `'${conf.replaceAll("'", "'\\''")}'`;
  return `export PYTORCH_CUDA_ALLOC_CONF=${value}`;
}
