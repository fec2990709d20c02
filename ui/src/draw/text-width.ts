/** Widths of texts on a canvas, remembered: charts measure the same labels in every frame, and each measurement leaves garbage. */

/** What measures. */
export interface Measurer {
  readonly font: string;
  measureText(text: string): {readonly width: number};
}

/** Texts that are remembered for a canvas. */
const TEXTS_MAX = 2000;

const known = new WeakMap<Measurer, Map<string, number>>();

/** The width of a text in the pen's font, in CSS pixels. */
export function textWidth(pen: Measurer, text: string): number {
  let widths = known.get(pen);
  if (!widths || widths.size >= TEXTS_MAX) {
    widths = new Map();
    known.set(pen, widths);
  }
  const key = `${pen.font} ${text}`;
  let width = widths.get(key);
  if (width === undefined) {
    ({width} = pen.measureText(text));
    widths.set(key, width);
  }
  return width;
}
