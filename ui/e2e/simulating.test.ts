/** A simulation that takes long: how far it is, and how it is ended. The program ends with the request: `reader.rs`. */

import {describe, expect, it} from 'vitest';
import {recording, serving, Viewer} from './browser';

const served = serving(recording('linear_forward'));

describe('a simulation that takes long', () => {
  it('says how far it is, and ends with its request when it is cancelled', async () => {
    const viewer = await Viewer.open(served.browser, served.server.address);
    const {page} = viewer;
    const progress = {
      stage: 'running',
      entries: 952_319,
      recorded_entries: 952_319,
      settings_done: 1,
      settings: [
        {conf: '', runs: 12, at_entry: 952_319},
        {conf: 'expandable_segments:True', runs: 3, at_entry: 431_002},
        {conf: 'max_split_size_mb:128', runs: 0, at_entry: 0},
      ],
    };
    // The answer never comes.
    await page.route('**/simulate?*', () => {});
    await page.route('**/simulate/progress?*', route => route.fulfill({json: progress}));
    await page.keyboard.press('6');
    await page.waitForSelector('text=1 of 3 settings simulated');
    const rows = await page.locator('.simulating li').allInnerTexts();
    expect(rows.map(row => row.replace(/\s+/g, ' '))).toEqual([
      'default settings run 12: entry 952,319 of 952,319',
      'expandable_segments:True run 3: entry 431,002 of 952,319',
      'max_split_size_mb:128 waiting',
    ]);
    const ended = page.waitForEvent('requestfailed', request => request.url().includes('/simulate?'));
    await page.click('button:has-text("cancel")');
    await ended;
    await page.waitForSelector('.simulating', {state: 'detached'});
    await page.unroute('**/simulate?*');
    await page.unroute('**/simulate/progress?*');
    await page.click('button:has-text("Find out")');
    await page.waitForSelector('text=the least memory that is enough');
    expect(viewer.errors).toEqual([]);
    await page.close();
  });
});
