import {describe, expect, it} from 'vitest';
import {barEnd, cardLines, segments} from './bar';
import type {Card, EstimateDocument} from './document';
import {exactly} from './exactly';

const GIB = 2 ** 30;

function card(name: string, gibibytes: number): Card {
  return {name, memory_bytes: gibibytes * GIB, fits: true, may_fit: false, spare_bytes: 0};
}

const DOCUMENT = {
  total_bytes: 10 * GIB,
  peak_reserved_bytes: 9 * GIB,
  context_bytes: GIB,
  workspace_bytes: GIB / 2,
  peak_requested_bytes: 8 * GIB,
  breakdown: {
    parameter: 2 * GIB,
    gradient: 0,
    optimizer_state: GIB,
    activation: 4 * GIB,
    input: 0,
    temporary: GIB,
    workspace: 0,
    unknown: 0,
  },
} as EstimateDocument;

describe('the parts of the bar', () => {
  it('stand side by side and add up to the total', () => {
    const parts = segments(DOCUMENT, 20 * GIB);
    expect(parts.map(({id}) => id)).toEqual([
      'parameter',
      'optimizer_state',
      'activation',
      'temporary',
      'workspace',
      'unused',
      'context',
    ]);
    expect(parts.reduce((sum, {bytes}) => sum + bytes, 0)).toBe(DOCUMENT.total_bytes);
    for (const [i, part] of parts.entries()) expect(part.from).toBe(i === 0 ? 0 : parts[i - 1].to);
    expect(parts.at(-1)?.to).toBe(0.5);
  });

  it('end before the chosen card does, or the total', () => {
    expect(barEnd(DOCUMENT, card('a', 80))).toBeGreaterThan(80 * GIB);
    expect(barEnd(DOCUMENT, card('a', 8))).toBeGreaterThan(10 * GIB);
    expect(barEnd({...DOCUMENT, total_bytes: 0}, undefined)).toBeGreaterThan(0);
  });
});

describe("the cards' lines", () => {
  const cards = [card('small', 8), card('twin', 40), card('other', 40.1), card('large', 80), card('huge', 200)];

  it('leave out what lies beyond, and put together what lies together', () => {
    const lines = cardLines(cards, 'large', 85 * GIB, 1000);
    expect(lines.map(({names}) => names)).toEqual([['small'], ['twin', 'other'], ['large']]);
    expect(lines.map(({at}) => at)).toEqual([8 / 85, 40 / 85, 80 / 85]);
    expect(lines.filter(({isChosen}) => isChosen).map(({names}) => names[0])).toEqual(['large']);
  });

  it('have the chosen name where it shares a line', () => {
    expect(cardLines(cards, 'other', 85 * GIB, 1000)[1].names).toEqual(['other', 'twin']);
  });

  it('are labelled where there is room, the chosen one always', () => {
    const labelled = (chosen: string, width: number) =>
      cardLines(cards, chosen, 85 * GIB, width)
        .filter(({label}) => label !== null)
        .map(({names}) => names[0]);
    expect(labelled('large', 1000)).toEqual(['small', 'twin', 'large']);
    expect(labelled('large', 150)).toEqual(['twin', 'large']);
    expect(labelled('small', 60)).toEqual(['small']);
    expect(cardLines(cards, 'small', 85 * GIB, 60)[0].label).toBe('right');
  });
});

describe('bytes', () => {
  it('are exact as far as JavaScript has them', () => {
    expect(exactly(2 ** 53 - 1)).toContain('9,007,199,254,740,991 bytes');
    expect(exactly(2 ** 60)).toBe('about 1024 PiB');
  });
});
