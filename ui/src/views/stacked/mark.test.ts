import {beforeEach, describe, expect, it} from 'vitest';
import * as store from '../../state/store';
import {mark, markAt} from './mark';

describe('a mark', () => {
  beforeEach(() => {
    mark.value = null;
    store.selection.value = null;
  });

  it('begins a stretch, and the next one ends it, whichever comes first', () => {
    markAt(90);
    expect([mark.value, store.selection.value]).toEqual([90, null]);
    markAt(12);
    expect([mark.value, store.selection.value]).toEqual([null, {from: 12, to: 91}]);
    markAt(200);
    expect([mark.value, store.selection.value]).toEqual([200, {from: 12, to: 91}]);
  });

  it('measures one entry where it is set twice', () => {
    markAt(7);
    markAt(7);
    expect(store.selection.value).toEqual({from: 7, to: 8});
  });
});
