/** The answer on the first screen: what failed, why, and what to change. */

import {join} from 'node:path';
import {pathToFileURL} from 'node:url';
import {describe, expect, it} from 'vitest';
import {recording, run, scratch, serving, Viewer} from './browser';

const OOM = recording('oom_gpt2_8gib');

const served = serving(OOM, recording('annotated'));

interface Explained {
  steps: {title: string; change?: string}[];
}

describe('the verdict bar', () => {
  it('says what failed, and leads to the report, to the state at the error, and to what would help', async () => {
    const viewer = await Viewer.open(served.browser, served.server.address);
    const {page} = viewer;
    const bar = page.locator('.verdict-bar.failed');
    expect(await bar.innerText()).toMatch(/Out of memory on device 0 at entry 590: 256\.00 MiB requested/);
    await bar.getByText('state').click();
    await page.waitForSelector('.plot[data-entry="590"]');
    await page.keyboard.press('1');
    await page.locator('.verdict-bar').getByText('why').click();
    await page.waitForSelector('.summary .verdict');
    await page.keyboard.press('1');
    await page.locator('.verdict-bar').getByText('fix').click();
    await page.waitForSelector('.what-if');
    expect(viewer.errors).toEqual([]);
    await page.close();
  });

  it('of a run that did not fail says how high it peaked', async () => {
    const viewer = await Viewer.open(served.browser, `${served.server.address}#file=1`);
    await viewer.page.waitForFunction(() =>
      document.querySelector('.verdict-bar')?.textContent?.startsWith('iDevice 0 peaked at'),
    );
    expect(await viewer.page.locator('.verdict-bar.failed, .out-of-memory').count()).toBe(0);
    await viewer.page.close();
  });
});

describe('the panel', () => {
  const explained: Explained = JSON.parse(run('explain', OOM, '--format', 'json'));

  async function hasTheSteps(viewer: Viewer): Promise<void> {
    await viewer.page.waitForSelector('.out-of-memory .steps');
    const section = viewer.page.locator('.out-of-memory');
    expect(await section.locator('.facts').innerText()).toContain('256.00 MiB');
    const shown = await section.locator('.steps > li b').allInnerTexts();
    const titles = explained.steps.map(({title}) => title.replaceAll('`', '').toLowerCase());
    expect(shown.map(text => text.toLowerCase())).toEqual(titles.slice(0, 3));
  }

  it('has the steps of `highwater explain`, and comes to sight with the key that goes to the error', async () => {
    const viewer = await Viewer.open(served.browser, served.server.address);
    await hasTheSteps(viewer);
    await viewer.page.evaluate(() => document.querySelector('aside')!.scrollTo(0, 1e6));
    await viewer.page.keyboard.press('o');
    await viewer.page.waitForSelector('.verdict-bar.lit');
    await viewer.page.waitForFunction(() => document.querySelector('aside')!.scrollTop === 0);
    await viewer.page.close();
  });

  it('has them in a page that needs no program, too', async () => {
    const file = join(scratch(), 'oom.html');
    run('export', OOM, '--to', 'html', '-o', file);
    const viewer = await Viewer.open(served.browser, pathToFileURL(file).href);
    await hasTheSteps(viewer);
    expect(viewer.errors).toEqual([]);
    await viewer.page.close();
  });
});

describe('the summary', () => {
  it('tells of the error once, with the steps of `highwater explain`', async () => {
    const viewer = await Viewer.open(served.browser, served.server.address);
    await viewer.page.keyboard.press('5');
    await viewer.page.waitForSelector('.verdict .steps');
    const text = (await viewer.page.innerText('.summary')).replace(/\s+/g, ' ');
    expect(text.split('a limit set on purpose').length - 1).toBeLessThanOrEqual(1);
    const titles = await viewer.page.locator('.verdict .steps > li > b').allInnerTexts();
    expect(titles.length).toBe(JSON.parse(run('explain', OOM, '--format', 'json')).steps.length);
    for (const cell of await viewer.page.locator('.summary td.number').allInnerTexts()) expect(cell).not.toBe('0 B');
    await viewer.page.close();
  });

  it('fills in What if from the finding, where the winning setting can be copied', async () => {
    const viewer = await Viewer.open(served.browser, `${served.server.address}#file=1`);
    await viewer.page.keyboard.press('5');
    await viewer.page.click('text=try these settings');
    await viewer.page.waitForSelector('.what-if .conf input');
    expect(await viewer.page.inputValue('.what-if .conf input')).toBe('expandable_segments:True');
    await viewer.page.waitForSelector('.what-if .verdict .change');
    expect(await viewer.page.innerText('.what-if .verdict .change code')).toBe(
      'export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True',
    );
    await viewer.page.waitForSelector('text=8 GB RTX 4060');
    expect(viewer.errors).toEqual([]);
    await viewer.page.close();
  });
});

describe('What if', () => {
  const heads = (viewer: Viewer) => viewer.page.locator('.fit th').allInnerTexts();

  it('of a recording that ends at an error promises no GPU that fits', async () => {
    const viewer = await Viewer.open(served.browser, served.server.address);
    await viewer.page.keyboard.press('6');
    await viewer.page.waitForSelector('h2:has-text("the least memory that gets past it")');
    expect(await heads(viewer)).toEqual(['settings', 'reserved without a limit', 'least memory ▴', 'retries']);
    await viewer.page.fill('.what-if input[placeholder="no limit"]', '80GiB');
    await viewer.page.click('button:has-text("Simulate")');
    await viewer.page.waitForSelector('.good:has-text("✓ gets past the error")');
    expect(await viewer.page.locator('text=✓ fits').count()).toBe(0);
    await viewer.page.close();
  });

  it('of one that does not says the smallest GPU, and that the run fits', async () => {
    const viewer = await Viewer.open(served.browser, `${served.server.address}#file=1`);
    await viewer.page.keyboard.press('6');
    await viewer.page.waitForSelector('h2:has-text("the least memory that is enough")');
    expect((await heads(viewer)).at(-1)).toBe('smallest GPU');
    await viewer.page.waitForSelector('.good:has-text("✓ fits")');
    await viewer.page.close();
  });
});
