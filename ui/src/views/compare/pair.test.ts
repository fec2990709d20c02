import {describe, expect, it} from 'vitest';
import type {FileState} from '../../data/source';
import {otherFile} from './pair';

const file = (id: number, state: FileState['state'] = 'ready'): FileState => ({id, name: `${id}`, state});

describe('the file beside the open one', () => {
  it('is the chosen one, or the next that was read', () => {
    const all = [file(0), file(1, 'failed'), file(2), file(3, 'reading')];
    expect(otherFile(all, 0, undefined)?.id).toBe(2);
    expect(otherFile(all, 2, undefined)?.id).toBe(0);
    expect(otherFile(all, 2, '0')?.id).toBe(0);
    expect(otherFile(all, 0, '0')?.id).toBe(2);
    expect(otherFile([file(0), file(1, 'failed')], 0, '1')).toBeUndefined();
  });
});
