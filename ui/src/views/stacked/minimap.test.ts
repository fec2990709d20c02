import {describe, expect, it} from 'vitest';
import type {Viewport} from '../../draw/viewport';
import {dragged, gripAt, positionOnMinimap} from './minimap';

const WHOLE = {from: 0, to: 1000};

function showing(from: number, to: number): Viewport {
  return {widthCss: 500, heightCss: 100, x: {from, to}, lowBytes: 0, highBytes: 1};
}

describe('the strip of the whole recording', () => {
  it('has nothing to take but a new stretch where all is visible', () => {
    for (const x of [0, 250, 500]) expect(gripAt(showing(0, 1000), WHOLE, x)).toBe('range');
  });

  it('has a frame with a middle and two ends', () => {
    const grips = [50, 95, 100, 150, 200, 205, 250].map(x => gripAt(showing(200, 400), WHOLE, x));
    expect(grips).toEqual(['range', 'from', 'from', 'move', 'to', 'to', 'range']);
  });

  it('can be taken at the middle and the ends also where the frame is a pixel wide', () => {
    const grips = [240, 245, 250, 255, 260].map(x => gripAt(showing(499, 501), WHOLE, x));
    expect(grips).toEqual(['range', 'from', 'move', 'to', 'range']);
  });

  it('shows what is dragged over, whichever end comes first', () => {
    const began = {from: 200, to: 400};
    expect(dragged('range', began, 600, 900, 10)).toEqual({from: 600, to: 900});
    expect(dragged('range', began, 600, 100, 10)).toEqual({from: 100, to: 600});
    expect(dragged('range', began, 600, 601, 10)).toEqual({from: 600, to: 610});
  });

  it('moves the frame, or an end of it that never passes the other', () => {
    const began = {from: 200, to: 400};
    expect(dragged('move', began, 300, 350, 10)).toEqual({from: 250, to: 450});
    expect(dragged('from', began, 200, 150, 10)).toEqual({from: 150, to: 400});
    expect(dragged('from', began, 200, 900, 10)).toEqual({from: 390, to: 400});
    expect(dragged('to', began, 400, 500, 10)).toEqual({from: 200, to: 500});
    expect(dragged('to', began, 400, 0, 10)).toEqual({from: 200, to: 210});
  });

  it('ends where the recording ends', () => {
    expect([-50, 0, 250, 700].map(x => positionOnMinimap(showing(0, 10), WHOLE, x))).toEqual([0, 0, 500, 1000]);
  });
});
