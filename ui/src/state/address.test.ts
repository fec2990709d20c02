import {beforeEach, describe, expect, it} from 'vitest';
import {addressOfState, Steps, stateOfAddress} from './address';
import * as store from './store';

describe('the address', () => {
  beforeEach(() => stateOfAddress(''));

  it('is empty at the beginning', () => {
    expect(addressOfState()).toBe('');
  });

  it('holds the whole state, and gives it back', () => {
    store.view.value = 'state';
    store.file.value = 3;
    store.device.value = 1;
    store.axis.value = 'time';
    store.xRange.value = {from: 12.5, to: 1e9};
    store.yRange.value = {low: 0, high: 2 ** 33};
    store.selection.value = {from: 5, to: 900};
    store.pinned.value = 42;
    store.cursor.value = 17;
    store.query.value = '"a b" size>1MiB #&=';
    store.colourBy.value = 'pool';
    store.theme.value = 'dark';
    store.setViewOption('stacks.of', 'kept');
    const address = addressOfState();
    stateOfAddress('');
    expect(store.pinned.value).toBeNull();
    stateOfAddress(`#${address}`);
    expect(addressOfState()).toBe(address);
    expect(store.xRange.value).toEqual({from: 12.5, to: 1e9});
    expect(store.query.value).toBe('"a b" size>1MiB #&=');
    expect(store.viewOption('stacks.of', ['live', 'kept'])).toBe('kept');
  });

  it('takes what is malformed as not said', () => {
    for (const words of ['x=5..2', 'x=a..b', 'x=5', 'y=1..1', 'range=1.5..3', 'range=-4..3', 'view=home', 'row=-1']) {
      stateOfAddress(`#${words}`);
      expect(addressOfState(), words).toBe('');
    }
    for (const words of [
      'row=1e9',
      'at=0x10',
      'device=',
      'colour=<b>',
      'theme=blue',
      'axis=space',
      'file=9999999999999999',
    ]) {
      stateOfAddress(`#${words}`);
      expect(addressOfState(), words).toBe('');
    }
  });

  it('keeps an option only as one of those that are allowed', () => {
    store.setViewOption('frames', 'javascript:alert(1)');
    expect(store.viewOption('frames', ['own', 'all'])).toBe('own');
  });
});

describe('a step back', () => {
  beforeEach(() => stateOfAddress(''));

  const zoom = (from: number) => {
    store.xRange.value = {from, to: from + 10};
  };

  it('leads from each place, and from each zoom', () => {
    const steps = new Steps();
    zoom(1);
    expect(steps.next(0)).toBe('pushState');
    store.view.value = 'stacks';
    expect(steps.next(100)).toBe('pushState');
    zoom(2);
    expect(steps.next(5000)).toBe('pushState');
  });

  it('leads from gestures that follow each other at once', () => {
    const steps = new Steps();
    zoom(1);
    expect(steps.next(0)).toBe('pushState');
    zoom(2);
    expect(steps.next(1000)).toBe('replaceState');
    zoom(3);
    expect(steps.next(2400)).toBe('replaceState');
    zoom(4);
    expect(steps.next(9000)).toBe('pushState');
  });

  it('does not lead from words in the search, the cursor or the theme', () => {
    const steps = new Steps();
    store.query.value = 'adam';
    expect(steps.next(0)).toBe('replaceState');
    store.cursor.value = 5;
    expect(steps.next(9000)).toBe('replaceState');
  });

  it('begins anew after the history was gone through', () => {
    const steps = new Steps();
    zoom(1);
    expect(steps.next(0)).toBe('pushState');
    zoom(2);
    steps.take();
    zoom(3);
    expect(steps.next(100)).toBe('pushState');
  });
});
