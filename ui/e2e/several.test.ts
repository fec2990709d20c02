/** Several recordings in a real browser: two on one axis, and many as small pictures. */

import {copyFileSync} from 'node:fs';
import {join} from 'node:path';
import type {Browser} from 'playwright-core';
import {afterAll, beforeAll, describe, expect, it} from 'vitest';
import {binary} from '../src/model/units';
import {launch, recording, run, Server, scratch, Viewer} from './browser';

let browser: Browser;
beforeAll(async () => {
  browser = await launch();
});
afterAll(() => browser.close());

/** The page at a view that has no large picture. */
async function openAt(address: string, view: string, waitFor: string): Promise<Viewer> {
  const viewer = await Viewer.open(browser, address);
  await viewer.page.goto(`${address}#view=${view}`);
  await viewer.page.waitForSelector(waitFor);
  return viewer;
}

describe('two recordings', () => {
  const files = [recording('qwen_train_b2'), recording('qwen_train_b16')] as const;
  let server: Server;
  beforeAll(async () => {
    server = await Server.start(...files);
  });
  afterAll(() => server.stop());

  it('are compared in a view that the help lists, as one of all ranks it does not', async () => {
    const {page} = await openAt(server.address, 'compare', '.changes tbody tr');
    await page.keyboard.press('?');
    const everywhere = page.locator('dialog.help section', {hasText: 'Everywhere'}).locator('dd');
    const listed = await everywhere.allInnerTexts();
    expect(listed).toContain('Compare');
    expect(listed).not.toContain('Ranks');
    await page.close();
  });

  it('have the peaks of other batches', async () => {
    const [batch] = JSON.parse(run('diff', ...files, '--format', 'json')).devices.map(
      ({batch}: {batch: unknown}) => batch,
    );
    const {page} = await openAt(server.address, 'compare', '.changes tbody tr');
    const rows = page.locator('.card', {hasText: 'Peak by the batch'}).locator('tbody tr');
    const shown = await rows.evaluateAll(all => all.map(row => [...row.children].map(cell => cell.textContent ?? '')));
    expect(shown.map(([times, peak]) => [times, peak])).toEqual(
      batch.peaks.map(({batch_ratio: [times], peak_bytes: bytes}: {batch_ratio: number[]; peak_bytes: number}) => [
        times === 1 ? '1' : `${times} ×`,
        binary(bytes),
      ]),
    );
    expect(shown.map(([, , recorded]) => recorded).filter(Boolean)).toEqual(['b2', 'b16']);
    await page.close();
  });

  it('have the numbers of `highwater diff`', async () => {
    const diff = JSON.parse(run('diff', ...files, '--format', 'json'));
    const {page, errors} = await openAt(server.address, 'compare', '.changes tbody tr');
    const cells = await page.evaluate(() =>
      [...document.querySelectorAll('.compare table')].map(table =>
        [...table.querySelectorAll('tbody tr')].map(row => [...row.children].map(cell => cell.textContent ?? '')),
      ),
    );
    const highest = cells.flat().find(([head]) => head === 'Peak reserved');
    const [first, second] = diff.devices[0].sides;
    expect(highest?.slice(1, 3)).toEqual([first, second].map(side => binary(side.peak_reserved_bytes)));
    const site = diff.devices[0].call_sites[0];
    const [change, , , where] = cells.at(-1)![0];
    expect(where).toBe(site.place);
    expect(change.startsWith(site.change_bytes > 0 ? '+' : '−')).toBe(true);
    expect(errors).toEqual([]);
    await page.close();
  });

  it('are aligned by iteration, and one cursor is over both', async () => {
    const {page, errors} = await openAt(server.address, 'compare', '.compare .small-chart');
    expect(await page.inputValue('select[aria-label="Align by"]')).toBe('iteration');
    const box = (await page.locator('.compare .small-chart').first().boundingBox())!;
    await page.mouse.move(box.x + box.width / 2, box.y + 40);
    await page.waitForSelector('.curve-head .at');
    expect(await page.locator('.curve-head .at').count()).toBe(2);
    await page.selectOption('select[aria-label="Align by"]', 'time');
    await page.mouse.move(box.x + box.width / 2 + 3, box.y + 40);
    await page.waitForSelector('text=after the first entry');
    await page.waitForFunction(() => location.hash.includes('view=compare'));
    expect(errors).toEqual([]);
    await page.close();
  });

  it('have a flame graph of what changed, and are swapped', async () => {
    const {page, errors} = await openAt(server.address, 'compare', '.difference canvas');
    await page.locator('.difference').scrollIntoViewIfNeeded();
    const said = () => page.locator('.compare .chosen-box').innerText();
    const before = await said();
    expect(before).toMatch(/^all\s+b2 [\d.]+ GiB, b16 [\d.]+ GiB$/);
    await page.locator('.difference').focus();
    for (const key of ['ArrowDown', 'ArrowDown', 'Enter']) await page.keyboard.press(key);
    expect(await said()).not.toBe(before);
    await page.waitForSelector('text=reset zoom');
    await page.getByRole('button', {name: 'swap'}).click();
    await page.waitForFunction(() => document.querySelector('.compare b')?.textContent?.startsWith('qwen_train_b16'));
    expect(errors).toEqual([]);
    await page.close();
  });

  it('of different devices are compared all the same', async () => {
    const server = await Server.start(recording('fsdp2_qwen05b_rank2'), recording('linear_forward'));
    const {page, errors} = await openAt(server.address, 'compare', '.changes');
    expect(await page.locator('.curve-head').allInnerTexts()).toEqual([
      expect.stringContaining('device 2'),
      expect.stringContaining('device 0'),
    ]);
    expect(await page.locator('.problem-card').count()).toBe(0);
    expect(errors).toEqual([]);
    await page.close();
    await server.stop();
  });
});

describe('many recordings', () => {
  it('are small pictures, made where they are seen; the outlier is named and a click opens it', async () => {
    const folder = scratch();
    for (let rank = 0; rank < 64; rank++) {
      const name = rank === 37 ? 'qwen_train_b16' : 'qwen_train_b2';
      copyFileSync(recording(name), join(folder, `rank${rank}.pickle.gz`));
    }
    const server = await Server.start(folder);
    const viewer = await Viewer.open(browser, server.address);
    const {page} = viewer;
    const pictures = new Set<string>();
    page.on('request', request => {
      if (/curves\?parts=[1-9]/.test(request.url())) pictures.add(request.url());
    });
    await page.goto(`${server.address}#view=ranks`);
    await page.waitForFunction(() => document.querySelectorAll('.rank').length === 64);
    await page.waitForSelector('.rank canvas[data-drawn]');
    await page.waitForFunction(() =>
      /^Rank 37 peaks at .* more than the median rank/.test(
        document.querySelector('.ranks [role=status]')?.textContent ?? '',
      ),
    );
    // The highest is the first.
    expect(await page.locator('.rank').first().innerText()).toContain('rank37');
    expect(pictures.size).toBeLessThan(64);
    await page.locator('.rank').last().scrollIntoViewIfNeeded();
    await page.waitForFunction(() => document.querySelectorAll('.rank')[63].querySelector('canvas')?.dataset.drawn);

    await page.selectOption('select[aria-label="Sort by"]', 'name');
    expect((await page.locator('.rank b').allInnerTexts()).slice(0, 3)).toEqual(['rank0', 'rank1', 'rank2']);
    await page.locator('.rank', {hasText: 'rank37'}).click({position: {x: 100, y: 60}});
    await page.waitForFunction(() => document.title.includes('rank37'));
    await viewer.settled();
    await page.waitForFunction(() => /at=\d+/.test(location.hash));

    await page.keyboard.press('Shift+ArrowRight');
    await page.waitForFunction(() => document.title.includes('rank38'));
    await page.keyboard.press('Shift+ArrowLeft');
    await page.waitForFunction(() => document.title.includes('rank37'));
    expect(viewer.errors).toEqual([]);
    await page.close();
    await server.stop();
  });

  it('are a heat map of 1,024 rows that stays fluid, and a click opens the rank at that moment', async () => {
    const folder = scratch();
    for (let rank = 0; rank < 1024; rank++) {
      copyFileSync(recording(rank === 700 ? 'leak_grows' : 'linear_forward'), join(folder, `rank${rank}.pickle.gz`));
    }
    const server = await Server.start(folder);
    const viewer = await Viewer.open(browser, server.address);
    const {page} = viewer;
    await page.goto(`${server.address}#view=ranks&ranks.form=heat+map`);
    await page.waitForSelector('.heat canvas[data-drawn="1024"]', {timeout: 240_000});
    // The verdict moves the picture down when it comes.
    await page.waitForFunction(() =>
      document.querySelector('.ranks [role=status]')?.textContent?.includes('hold about the same amount'),
    );
    await page.selectOption('select[aria-label="Sort by"]', 'name');
    const canvas = page.locator('.heat canvas');
    const box = (await canvas.boundingBox())!;
    // Pointing asks the program nothing; rows that are not there yet go on arriving.
    let asked = 0;
    page.on('request', request => {
      if (!request.url().includes('/api/outlines')) asked++;
    });
    await page.mouse.move(box.x + box.width / 2, box.y + 1);
    await page.waitForFunction(() => document.querySelector('.heat-said b')?.textContent === 'rank0');
    for (const key of ['ArrowDown', 'ArrowDown']) await canvas.press(key);
    await page.waitForFunction(() => document.querySelector('.heat-said b')?.textContent === 'rank2');
    expect(asked).toBe(0);
    await canvas.press('Enter');
    await page.waitForFunction(() => document.title.includes('rank2') && /at=\d+/.test(location.hash));
    expect(viewer.errors).toEqual([]);
    await page.close();
    await server.stop();
  }, 300_000);
});
