/** Numbers as they are shown: binary units, exact bytes, counts, times. */

import {Problem} from '../data/source';

const UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];

/** `1.50 GiB`: three digits that count. */
export function binary(bytes: number): string {
  if (bytes < 0) return `−${binary(-bytes)}`;
  if (bytes < 1024) return `${bytes} B`;
  let value = bytes;
  let unit = 0;
  for (; value >= 1023.95 && unit < UNITS.length - 1; unit++) value /= 1024;
  const digits = value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  return `${value.toFixed(digits)} ${UNITS[unit]}`;
}

/** A change: `+1.50 GiB`, `−12.0 MiB`, `0 B`. */
export function signed(bytes: number): string {
  if (bytes === 0) return binary(0);
  return `${bytes > 0 ? '+' : '−'}${binary(Math.abs(bytes))}`;
}

/** `256.00 MiB`: two decimals, as PyTorch's own messages have it. */
export function asInMessages(bytes: number): string {
  if (bytes < 1024) return `${bytes} B`;
  const {value, unit} = inUnit(bytes);
  return `${value.toFixed(2)} ${unit}`;
}

/** `1,234,567`. */
export function count(value: number): string {
  return String(value)
    .replace('-', '−')
    .replace(/\B(?=(\d{3})+(?!\d))/g, ',');
}

/** `1,234 bytes` behind a rounded size, where rounding hides something. */
export function exact(bytes: number): string {
  return bytes < 1024 ? binary(bytes) : `${binary(bytes)} (${count(bytes)} bytes)`;
}

/** `1 block`, `2 blocks`. */
export function counted(value: number, one: string, many = `${one}s`): string {
  return `${count(value)} ${value === 1 ? one : many}`;
}

/** `1st`, `2nd`, `11th`. */
export function ordinal(value: number): string {
  const tens = value % 100;
  const ending = tens > 10 && tens < 14 ? 'th' : (['th', 'st', 'nd', 'rd'][value % 10] ?? 'th');
  return `${count(value)}${ending}`;
}

/** `12.3 ms`. */
export function duration(us: number): string {
  if (us < 1000) return `${Math.round(us)} µs`;
  if (us < 1_000_000) return `${(us / 1000).toFixed(us < 10_000 ? 2 : 1)} ms`;
  if (us < 120_000_000) return `${(us / 1_000_000).toFixed(us < 10_000_000 ? 2 : 1)} s`;
  const minutes = Math.floor(us / 60_000_000);
  return `${minutes} min ${Math.round((us - minutes * 60_000_000) / 1_000_000)} s`;
}

/** `12.3 %`. */
export function percent(ratio: number): string {
  return `${(ratio * 100).toFixed(Math.abs(ratio) < 0.0995 ? 1 : 0)} %`;
}

/** `0x7f3c00000000`. */
export function address(value: number): string {
  return `0x${value.toString(16)}`;
}

/** Positions of round values between two, about `wanted` of them: powers of two of bytes, so that labels are short. */
export function byteTicks(low: number, high: number, wanted: number): number[] {
  const rough = (high - low) / Math.max(1, wanted);
  const step = 2 ** Math.max(0, Math.ceil(Math.log2(Math.max(rough, 1))));
  const ticks: number[] = [];
  for (let at = Math.ceil(low / step) * step; at <= high; at += step) ticks.push(at);
  return ticks;
}

/** Digits of a label on the axis of bytes; where more are needed, labels count from the lowest one. */
const LABEL_DIGITS = 4;

/**
 * Labels for `byteTicks`, with as many digits as it takes to tell each from the next. Deep in a picture these would be too many:
 * there the lowest has all of its digits, and the others say how much higher they are, `+12 MiB`.
 */
export function byteLabels(ticks: readonly number[]): string[] {
  if (ticks.length === 0) return [];
  const [lowest] = ticks;
  const step = ticks.length > 1 ? ticks[1] - lowest : Math.max(lowest, 1);
  const labels = ticks.map(bytes => label(bytes, step));
  if (lowest === 0 || labels.every(text => text !== undefined)) {
    return labels.map((text, i) => text ?? wholeLabel(ticks[i]));
  }
  return [
    wholeLabel(lowest),
    ...byteLabels(ticks.map(bytes => bytes - lowest))
      .slice(1)
      .map(text => `+${text}`),
  ];
}

/** `undefined` if it takes too many digits to tell `bytes` from what is a step away, a power of two. */
function label(bytes: number, step: number): string | undefined {
  const {value, unit, scale} = inUnit(bytes);
  const whole = String(Math.floor(value)).length;
  const isShort = (decimals: number) => decimals === 0 || whole + decimals <= LABEL_DIGITS;
  const exactDecimals = Math.max(0, Math.log2(scale / step));
  const enough = Math.ceil(Math.log10(scale / step));
  const decimals = isShort(exactDecimals) ? exactDecimals : enough;
  // With more than two decimals, rounded ones look uneven: 7.852, 7.854, 7.855.
  if (decimals !== exactDecimals && (decimals > 2 || !isShort(decimals))) return undefined;
  return `${value.toFixed(decimals).replace(/\.0+$/, '')} ${unit}`;
}

function wholeLabel(bytes: number): string {
  const {value, unit} = inUnit(bytes);
  return `${Number(value.toPrecision(6))} ${unit}`;
}

function inUnit(bytes: number): {value: number; unit: string; scale: number} {
  let scale = 1;
  let unit = 0;
  for (; bytes / scale >= 1024 && unit < UNITS.length - 1; unit++) scale *= 1024;
  return {value: bytes / scale, unit: UNITS[unit], scale};
}

const K = 1024;
/** As in the crate `units`. */
const BYTES_OF_UNIT: Record<string, number> = {
  '': 1,
  b: 1,
  k: K,
  kib: K,
  kb: 1000,
  m: K ** 2,
  mib: K ** 2,
  mb: 1e6,
  g: K ** 3,
  gib: K ** 3,
  gb: 1e9,
  t: K ** 4,
  tib: K ** 4,
  tb: 1e12,
};

/**
 * Bytes of a size of which a few hundred are usual, such as a block's: `512`, `1.5MiB`. Throws a `Problem` that says what is
 * expected. The server has the same rule, from `testdata/units.json`, and one for amounts of memory.
 */
export function parseBytes(text: string): number {
  const found = /^((?:\d{1,3}(?:,\d{3})+|[\d_]*)(?:\.[\d_]*)?)\s*([a-z]*)$/i.exec(text.trim());
  const scale = found ? BYTES_OF_UNIT[found[2].toLowerCase()] : undefined;
  const digits = found?.[1].replace(/[,_]/g, '') ?? '';
  if (scale === undefined || !/\d/.test(digits) || digits.length > 24) {
    throw new Problem({error: `\`${text}\` is not a size`, hint: 'write it as `512`, `16KiB` or `1.5GiB`'});
  }
  return Math.round(Number(digits) * scale);
}
