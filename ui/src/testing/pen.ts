/** A pen that writes down what it is told, for tests of what is drawn. */

import type {Pen} from '../draw/overlay';

/** The log: one line a command, numbers rounded to whole pixels. */
export interface LoggingPen extends Pen {
  readonly log: string[];
}

const METHODS = [
  'beginPath',
  'moveTo',
  'lineTo',
  'closePath',
  'stroke',
  'fill',
  'fillRect',
  'strokeRect',
  'fillText',
  'setLineDash',
  'save',
  'restore',
] as const;

/** A new pen; letters are 6 pixels wide. */
export function loggingPen(): LoggingPen {
  const log: string[] = [];
  const pen: Record<string, unknown> = {log, measureText: (text: string) => ({width: text.length * 6})};
  for (const method of METHODS) {
    pen[method] = (...args: unknown[]) => {
      const words = args.map(arg => (typeof arg === 'number' ? String(Math.round(arg)) : String(arg)));
      log.push([method, ...words].join(' ').trim());
    };
  }
  return pen as unknown as LoggingPen;
}
