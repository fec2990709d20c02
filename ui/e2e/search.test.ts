/** The search box in a real browser. */

import {join} from 'node:path';
import {pathToFileURL} from 'node:url';
import type {Page} from 'playwright-core';
import {beforeEach, describe, expect, it} from 'vitest';
import {recording, run, scratch, serving, Viewer} from './browser';
import {serveMadeUp} from './made-up';

let viewer: Viewer;
let page: Page;
const served = serving(recording('oom_gpt2_8gib'));

function said(): Promise<string> {
  return page.innerText('.hits');
}

describe('the search box', () => {
  beforeEach(async () => {
    viewer = await Viewer.open(served.browser, served.server.address);
    page = viewer.page;
    return async () => {
      expect(viewer.errors).toEqual([]);
      await page.close();
    };
  });

  it('lists what it found, goes there, and counts', async () => {
    await page.fill('#search', '/activations\\.py:\\d+/ size>100MiB');
    await page.waitForSelector('.found li');
    const [, all] = /^(\d+) found/.exec(await said())!;
    expect(await page.locator('.found li').count()).toBe(Number(all));
    await page.click('.found li:nth-child(3) button');
    await expect.poll(said).toMatch(new RegExp(`^3 of ${all}`));
    expect(await page.innerText('.pinned .frames')).toContain('activations.py');
    await page.press('#search', 'Enter');
    await expect.poll(said).toMatch(new RegExp(`^4 of ${all}`));
    await page.press('#search', 'ArrowDown');
    expect(await page.evaluate(() => document.activeElement?.closest('.found') !== null)).toBe(true);
    await page.keyboard.press('Escape');
    expect(await page.inputValue('#search')).toBe('');
    expect(await page.locator('.found').count()).toBe(0);
  });

  it('fades nothing for a term that is malformed, and says what is wrong', async () => {
    const before = await viewer.picture();
    // What is typed on the way is text, and found nowhere.
    await page.fill('#search', 'nothing-like-this');
    await expect.poll(said).toMatch(/^0 found/);
    await viewer.settled();
    expect(await viewer.picture()).not.toBe(before);
    await page.fill('#search', 'lived>soon');
    await expect.poll(said).toContain('`soon` is not a time');
    await viewer.settled();
    expect(await viewer.picture()).toBe(before);
  });

  it('stops a regular expression that would run for ever, and goes on', async () => {
    await page.fill('#search', '/(.+)+(.+)+(.+)+(.+)+zq/');
    await expect.poll(said, {timeout: 30_000}).toContain('was stopped after');
    await page.fill('#search', '/forward$/');
    await expect.poll(said).toMatch(/^[1-9]\d* found/);
  });
});

describe('a single file', () => {
  it('has regular expressions too', async () => {
    const file = join(scratch(), 'page.html');
    run('export', '--to', 'html', recording('oom_gpt2_8gib'), '-o', file);
    viewer = await Viewer.open(served.browser, pathToFileURL(file).href);
    page = viewer.page;
    await page.fill('#search', '/activations\\.py:\\d+/ size>100MiB');
    await expect.poll(said).toMatch(/^[1-9]\d* found/);
    expect(viewer.errors).toEqual([]);
    await page.close();
  });
});

describe('ten million entries', () => {
  it('are searched while the picture moves', async () => {
    const made = await serveMadeUp(10_000_000);
    viewer = await Viewer.open(served.browser, made.address);
    page = viewer.page;
    const at = await viewer.place(0.5, 0.5);
    await page.mouse.move(at.x, at.y);
    for (const [query, words] of [
      ['step size>1MiB', '3,306,117 found'],
      ['/st.p/ -size>3MiB', '2,302,754 found'],
      ['lived>100', '3,333,340 found'],
    ]) {
      await page.fill('#search', query);
      await page.mouse.wheel(0, -100);
      await viewer.settled();
      await expect.poll(said).toContain(words);
    }
    expect(viewer.errors).toEqual([]);
    await page.close();
    made.stop();
  });
});
