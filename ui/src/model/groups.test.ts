import {describe, expect, it} from 'vitest';
import {groupsOfRows, identity, totalsByGroup} from './groups';

const groups = {
  by: 'category' as const,
  key: Uint8Array.of(0, 2, 2, 3),
  ofKey: identity(4),
  count: 4,
  label: (group: number) => `group ${group}`,
};
const sizes = [10, 3, 4, 20];

describe('groups', () => {
  it('of a picture are all that any row is in, the largest first', () => {
    expect(groupsOfRows(groups, row => sizes[row])).toEqual([3, 0, 2]);
  });

  it('of some rows have the sums of these rows', () => {
    const totals = totalsByGroup(groups, [1, 2, 0], row => sizes[row]);
    expect(totals.map(({group, bytes, count}) => [group, bytes, count])).toEqual([
      [0, 10, 1],
      [2, 7, 2],
    ]);
  });
});
