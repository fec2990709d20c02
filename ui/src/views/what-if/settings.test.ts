import {describe, expect, it} from 'vitest';
import {exportLine, pairsOf, settingOf, withSetting} from './settings';
import {type Fit, smallestCard} from './simulation';

describe('settings as text', () => {
  it('are pairs between commas, except in brackets', () => {
    expect(pairsOf('a:1, b:[256:1,512:2,>:8],c')).toEqual([
      ['a', '1'],
      ['b', '[256:1,512:2,>:8]'],
      ['c', ''],
    ]);
    expect(pairsOf('')).toEqual([]);
  });

  it('keep the others, and their order, when one is set or taken away', () => {
    const conf = 'max_split_size_mb:128,expandable_segments:True';
    expect(withSetting(conf, 'max_split_size_mb', '64')).toBe('max_split_size_mb:64,expandable_segments:True');
    expect(withSetting(conf, 'expandable_segments', '')).toBe('max_split_size_mb:128');
    expect(withSetting('', 'expandable_segments', 'True')).toBe('expandable_segments:True');
    expect(withSetting('b:[1:2,3:4]', 'a', '1')).toBe('b:[1:2,3:4],a:1');
    expect(settingOf(conf, 'expandable_segments')).toBe('True');
    expect(settingOf(conf, 'backend')).toBe('');
  });
});

describe('the line for the shell', () => {
  it('is quoted where the shell would read signs in it', () => {
    expect(exportLine('expandable_segments:True')).toBe('export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True');
    expect(exportLine('roundup_power2_divisions:[256:1,>:8]')).toBe(
      "export PYTORCH_CUDA_ALLOC_CONF='roundup_power2_divisions:[256:1,>:8]'",
    );
    expect(exportLine("a:'$(rm)")).toBe("export PYTORCH_CUDA_ALLOC_CONF='a:'\\''$(rm)'");
  });
});

describe('the smallest card', () => {
  const fitOn = (fits: boolean[]): Fit => ({
    conf: '',
    min_capacity_bytes: 1,
    min_capacity_any_order_bytes: 1,
    over_live_ratio: 1,
    num_alloc_retries: 0,
    ample_reserved_bytes: 1,
    cards: fits.map((one, i) => ({
      gigabytes: i,
      name: `${i}`,
      short_name: `${i}`,
      total_bytes: i,
      fits: one,
      num_alloc_retries: 0,
    })),
  });

  it('is one from which on all fit', () => {
    expect(smallestCard(fitOn([false, true, true]))?.name).toBe('1');
    expect(smallestCard(fitOn([true, false, true]))?.name).toBe('2');
    expect(smallestCard(fitOn([true, true]))?.name).toBe('0');
    expect(smallestCard(fitOn([true, false]))).toBeUndefined();
  });
});
