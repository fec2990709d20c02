import {beforeEach, describe, expect, it} from 'vitest';
import {stateOfAddress} from './address';
import {files} from './session';
import * as store from './store';
import {closeTab, tabs} from './tabs';

describe('tabs', () => {
  beforeEach(() => {
    stateOfAddress('');
    files.value = [0, 1, 2].map(id => ({id, name: `${id}`, state: id === 1 ? 'failed' : 'ready'}));
  });
  const open = () => tabs.value.map(({id}) => id);

  it('are closed, and the next file is looked at, or the one before', () => {
    closeTab(1);
    expect([open(), store.file.value]).toEqual([[0, 2], 0]);
    closeTab(0);
    expect([open(), store.file.value]).toEqual([[2], 2]);
    closeTab(2);
    expect(open()).toEqual([2]);
  });

  it('come back for a file that an address leads to', () => {
    closeTab(1);
    store.file.value = 1;
    expect(open()).toEqual([0, 1, 2]);
  });
});
