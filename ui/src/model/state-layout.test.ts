import {describe, expect, it} from 'vitest';
import {random} from '../testing/lifetimes';
import {fittingScale, layOut, type StateMeasures, type StateSegment} from './state-layout';

const MEASURES: StateMeasures = {width: 200, stripHeight: 10, gap: 2, headingHeight: 15, widthMin: 3};

function madeUp(seed: number, count: number): StateSegment[] {
  const next = random(seed);
  const segments = Array.from({length: count}, (_, segment) => ({
    segment,
    units: next() < 0.2 ? Math.ceil(next() * 100_000) : Math.ceil(next() * 4096),
    group: Math.floor(next() * 4),
  }));
  return segments.sort((a, b) => a.group - b.group);
}

describe('the layout of a state', () => {
  it('shows all of every segment, once', () => {
    for (let seed = 1; seed < 20; seed++) {
      const segments = madeUp(seed, 60);
      const {strips} = layOut(segments, 50, MEASURES);
      for (const {segment, units} of segments) {
        const own = strips.filter(strip => strip.segment === segment);
        expect(own[0].fromUnits).toBe(0);
        expect(own.at(-1)!.toUnits).toBe(units);
        for (let i = 1; i < own.length; i++) expect(own[i].fromUnits).toBe(own[i - 1].toUnits);
      }
    }
  });

  it('never lays one over another, or beyond the width', () => {
    for (let seed = 1; seed < 20; seed++) {
      const {strips, height} = layOut(madeUp(seed, 60), 30, MEASURES);
      for (const y of new Set(strips.map(strip => strip.y))) {
        const row = strips.filter(strip => strip.y === y).sort((a, b) => a.x - b.x);
        row.forEach((strip, i) => {
          expect(strip.x + strip.width).toBeLessThanOrEqual(MEASURES.width);
          expect(strip.width).toBeGreaterThanOrEqual(MEASURES.widthMin);
          if (i > 0) expect(strip.x).toBeGreaterThanOrEqual(row[i - 1].x + row[i - 1].width);
          expect(strip.y + MEASURES.stripHeight).toBeLessThanOrEqual(height);
        });
      }
    }
  });

  it('fits the height at the finest scale that does', () => {
    const segments = madeUp(3, 80);
    const scale = fittingScale(segments, 400, MEASURES);
    expect(layOut(segments, scale, MEASURES).height).toBeLessThanOrEqual(400);
    expect(layOut(segments, scale * 0.8, MEASURES).height).toBeGreaterThan(400);
  });

  it('has a heading for each group that is there', () => {
    const segments = [0, 0, 2].map((group, segment) => ({segment, units: 10, group}));
    expect(layOut(segments, 1, MEASURES).headings.map(({group}) => group)).toEqual([0, 2]);
    expect(layOut([], 1, MEASURES)).toEqual({strips: [], headings: [], height: 0});
  });
});
