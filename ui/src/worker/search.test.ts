import {describe, expect, it} from 'vitest';
import {regexesOf} from '../model/search-query';
import {madeUp} from '../testing/lifetimes';
import {stacksOf} from '../testing/stacks';
import {MATCHING} from './matching';
import {hits, matchNumber, nextMatch, search as searchIn, searchTexts} from './search';
import type {Session} from './session';

describe('stepping through what was found', () => {
  const lifetimes = madeUp(1, 100, 5, 2);
  const matches = new Uint8Array(lifetimes.rows);
  matches[3] = 1;
  matches[10] = 1;

  it('goes on from the last one, and round the ends', () => {
    expect(nextMatch(lifetimes, matches, 3, 0, 1)).toBe(10);
    expect(nextMatch(lifetimes, matches, 10, 0, 1)).toBe(3);
    expect(nextMatch(lifetimes, matches, 3, 0, -1)).toBe(10);
  });

  it('begins where one looks', () => {
    expect(nextMatch(lifetimes, matches, undefined, lifetimes.start[10], 1)).toBe(10);
    expect(nextMatch(lifetimes, matches, undefined, 0, 1)).toBe(3);
    expect(nextMatch(lifetimes, matches, undefined, lifetimes.start[10], -1)).toBe(3);
  });

  it('finds nothing where nothing matches', () => {
    expect(nextMatch(lifetimes, new Uint8Array(lifetimes.rows), undefined, 0, 1)).toBeUndefined();
  });

  it('counts from one', () => {
    expect([3, 10, 4].map(row => matchNumber(matches, row))).toEqual([1, 2, undefined]);
  });
});

/** A session with some columns; each row's stack, category, stream and pool go by its number. */
function sessionOf(isTimed = true): Session {
  const lifetimes = madeUp(7, 400, 15, 3);
  const rows = Array.from({length: lifetimes.rows}, (_, row) => row);
  const columns: Record<string, ArrayLike<number>> = {
    requested: lifetimes.size.map(units => units * 512),
    category: Uint8Array.from(rows, row => row % 3),
    stream: Uint8Array.from(rows, row => row % 2),
    pool: Uint8Array.from(rows, row => (row >> 1) % 2),
  };
  const stacks = stacksOf([[0, 1], [0, 2], []], [0, 0, 0]);
  return {
    lifetimes,
    device: {
      categories: ['optimizer_state', 'gradient', 'activation'],
      streams: ['0', '140'],
      pools: [{label: 'default pool'}, {label: 'private pool (0, 1)'}],
      time_us: isTimed ? [0, 1] : null,
    },
    stack: Uint8Array.from(rows, row => row % 3),
    stacks: async () => stacks,
    column: async (name: string) => columns[name],
    times: async () => Float64Array.from({length: lifetimes.entries}, (_, entry) => entry * 1000),
  } as unknown as Session;
}

/** A search as the page asks for it. */
async function search(session: Session, query: string, isWanted: () => boolean) {
  const texts = await searchTexts(session);
  const matched = regexesOf(query).map(source => MATCHING.matching(source, texts));
  return searchIn(session, query, matched, isWanted);
}

describe('a search', () => {
  const found = async (query: string) => {
    const made = await search(sessionOf(), query, () => true);
    return [...made!.matches.keys()].filter(row => made!.matches[row]);
  };
  const {lifetimes} = sessionOf();
  const rows = Array.from({length: lifetimes.rows}, (_, row) => row);

  it('finds the rows of which every term holds', async () => {
    const {start, end, size} = lifetimes;
    expect(await found('f1')).toEqual(rows.filter(row => row % 3 === 0));
    expect(await found('-f1')).toEqual(rows.filter(row => row % 3 !== 0));
    expect(await found('"optimizer state"')).toEqual(rows.filter(row => row % 3 === 0));
    expect(await found('optimizer state')).toEqual(rows.filter(row => row % 3 === 0));
    expect(await found('/^f[12]$/ -/^f2$/')).toEqual(rows.filter(row => row % 3 === 0));
    expect(await found('/none|optimi.er state/')).toEqual(rows.filter(row => row % 3 !== 1));
    expect(await found('category:gradient stream:140')).toEqual(rows.filter(row => row % 3 === 1 && row % 2 === 1));
    expect(await found('stream:14')).toEqual([]);
    expect(await found('pool:private')).toEqual(rows.filter(row => (row >> 1) % 2 === 1));
    expect(await found('size>20KiB')).toEqual(rows.filter(row => size[row] > 40));
    expect(await found('lived>30')).toEqual(rows.filter(row => end[row] - start[row] > 30));
    expect(await found('lived<10ms')).toEqual(
      rows.filter(row => Math.min(end[row], lifetimes.entries - 1) - start[row] < 10),
    );
    expect(await found('-unfreed -before')).toEqual(
      rows.filter(row => end[row] < lifetimes.entries && row >= lifetimes.before),
    );
  });

  it('sums up what it found, and knows the frames', async () => {
    const made = await search(sessionOf(), 'f1', () => true);
    const bytes = rows.filter(row => row % 3 === 0).reduce((sum, row) => sum + lifetimes.size[row] * 512, 0);
    expect(made!.found).toEqual({count: Math.ceil(rows.length / 3), bytes, sites: Uint8Array.of(0, 1, 0, 0)});
    expect((await search(sessionOf(), '-f1 size>0', () => true))!.found.sites).toBeUndefined();
  });

  it('lists what it found in order', async () => {
    const made = await search(sessionOf(), 'f1', () => true);
    const list = await hits(sessionOf(), made!.matches, 1, 2);
    expect(list.map(({row, site}) => [row, site])).toEqual([
      [3, 'file.py:1 f1'],
      [6, 'file.py:1 f1'],
    ]);
    expect((await hits(sessionOf(), made!.matches, 0, 1))[0].entry).toBeUndefined();
  });

  it('ends where nobody waits for it any more', async () => {
    expect(await search(sessionOf(), 'f1', () => false)).toBeUndefined();
  });

  it('says what the recording lacks', async () => {
    await expect(search(sessionOf(false), 'lived>1ms', () => true)).rejects.toThrow('the recording has no times');
  });
});

describe('a regular expression', () => {
  it('looks into each line of a text, whatever the case', () => {
    const texts = ['Forward\n/x/model.py:12', 'forward_pre\n/x/hook.py:3'];
    const found = (source: string) => [...MATCHING.matching(source, texts)];
    expect(found('^forward$')).toEqual([1, 0]);
    expect(found('py:\\d$')).toEqual([0, 1]);
    expect(found('forward.*py')).toEqual([0, 0]);
  });
});
