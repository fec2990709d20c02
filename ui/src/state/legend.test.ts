import {beforeEach, describe, expect, it} from 'vitest';
import {stateOfAddress} from './address';
import {emphasis, hidden, only, showAllGroups, toggleHidden, toggleOnly} from './legend';

describe('the legend', () => {
  beforeEach(() => stateOfAddress(''));

  it('isolates a group, another one, and none', () => {
    toggleOnly('a');
    toggleOnly('b');
    expect(emphasis.value).toEqual({only: 'b', hidden: []});
    toggleOnly('b');
    expect(only.value).toBeNull();
  });

  it('hides groups whatever their names have in them, and shows them again', () => {
    for (const key of ['a, b', 'c&d=e', '"f"']) toggleHidden(key);
    expect(hidden.value).toEqual(['a, b', 'c&d=e', '"f"']);
    toggleHidden('c&d=e');
    expect(hidden.value).toEqual(['a, b', '"f"']);
    showAllGroups();
    expect(emphasis.value).toEqual({only: null, hidden: []});
  });
});
