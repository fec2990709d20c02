/** What is around every view: tabs, the header in any width, the legend, the panel's border. */

import {copyFileSync, writeFileSync} from 'node:fs';
import {join} from 'node:path';
import type {Browser} from 'playwright-core';
import {afterAll, beforeAll, describe, expect, it} from 'vitest';
import {launch, recording, Server, scratch, Viewer} from './browser';

let browser: Browser;
beforeAll(async () => {
  browser = await launch();
});
afterAll(() => browser.close());

describe('four ranks', () => {
  let server: Server;
  beforeAll(async () => {
    const folder = scratch();
    const ranks = [0, 1, 2, 3].map(rank => join(folder, `fsdp2_qwen05b_rank${rank}.pickle.gz`));
    for (const rank of ranks) copyFileSync(recording('linear_forward'), rank);
    const broken = join(folder, 'fsdp2_qwen05b_notes.pickle');
    writeFileSync(broken, 'no snapshot');
    server = await Server.start(...ranks, broken);
  });
  afterAll(() => server.stop());

  const tabs = (viewer: Viewer) => viewer.page.locator('.file-tab .tab').allInnerTexts();

  it('are named by what differs, and a tab can be closed, also that of a file that could not be read', async () => {
    const viewer = await Viewer.open(browser, server.address);
    await viewer.page.waitForSelector('nav.files >> text=⚠ notes');
    expect(await tabs(viewer)).toEqual(['rank0', 'rank1', 'rank2', 'rank3', '⚠ notes']);
    await viewer.page.hover('nav.files >> text=⚠ notes');
    await viewer.page.click('[aria-label="Close fsdp2_qwen05b_notes.pickle"]');
    expect(await tabs(viewer)).toEqual(['rank0', 'rank1', 'rank2', 'rank3']);
    await viewer.page.click('[aria-label="Close fsdp2_qwen05b_rank0.pickle.gz"]');
    await viewer.page.waitForFunction(() => document.title.startsWith('fsdp2_qwen05b_rank1'));
    expect(await tabs(viewer)).toEqual(['rank1', 'rank2', 'rank3']);
    // The address has it.
    await viewer.page.waitForFunction(() => decodeURIComponent(location.hash).includes('closed=4,0'));
    await viewer.page.reload();
    await viewer.settled();
    expect(await tabs(viewer)).toEqual(['rank1', 'rank2', 'rank3']);
    await viewer.page.close();
  });

  it('fit in one row of the header, in two where the window is narrow, and never run over its edge', async () => {
    const viewer = await Viewer.open(browser, `${server.address}#closed=4`);
    for (const [width, rows] of [
      [1440, 1],
      [1024, 2],
      [800, 2],
      [400, 4],
    ]) {
      await viewer.page.setViewportSize({width, height: 720});
      const {tall, wide} = await viewer.page.evaluate(() => ({
        tall: document.querySelector('header')!.getBoundingClientRect().height,
        wide: document.documentElement.scrollWidth,
      }));
      expect(wide, `${width} px`).toBe(width);
      expect(Math.round(tall / 33), `rows at ${width} px`).toBeLessThanOrEqual(rows);
    }
    await viewer.page.close();
  });
});

describe('the panel', () => {
  let server: Server;
  beforeAll(async () => {
    server = await Server.start(recording('oom_gpt2_8gib'));
  });
  afterAll(() => server.stop());

  it('isolates a group with a click, and brings the others back with the next', async () => {
    const viewer = await Viewer.open(browser, server.address);
    const whole = await viewer.picture();
    const first = viewer.page.locator('.legend .label').first();
    expect(await first.innerText()).toBe('activations.py:66 forward');
    await first.click();
    await viewer.page.waitForSelector('.legend tr.only');
    await viewer.page.mouse.move(10, 10);
    await viewer.settled();
    await expect.poll(async () => (await viewer.picture()) === whole, {message: 'the others fade'}).toBe(false);
    await viewer.page.waitForFunction(() => location.hash.includes('legend.only'));
    await first.click();
    await viewer.page.mouse.move(10, 10);
    await viewer.settled();
    await expect.poll(async () => (await viewer.picture()) === whole, {message: 'as it was'}).toBe(true);
    await viewer.page.close();
  });

  it('hides a group with a click on its swatch', async () => {
    const viewer = await Viewer.open(browser, server.address);
    const whole = await viewer.picture();
    await viewer.page.locator('.legend button.swatch').first().click();
    await viewer.page.waitForSelector('.legend tr.off');
    await viewer.page.mouse.move(10, 10);
    await viewer.settled();
    await expect.poll(async () => (await viewer.picture()) === whole, {message: 'the group is gone'}).toBe(false);
    await viewer.page.click('text=show all groups');
    await viewer.page.mouse.move(10, 10);
    await viewer.settled();
    await expect.poll(async () => (await viewer.picture()) === whole, {message: 'it is back'}).toBe(true);
    await viewer.page.close();
  });

  it('is made wider by dragging its border, and stays so', async () => {
    const viewer = await Viewer.open(browser, server.address);
    const widthOf = async () => (await viewer.page.locator('aside').boundingBox())!.width;
    const before = await widthOf();
    const border = (await viewer.page.locator('main > .splitter').boundingBox())!;
    await viewer.page.mouse.move(border.x + 2, border.y + 100);
    await viewer.page.mouse.down();
    await viewer.page.mouse.move(border.x - 118, border.y + 100, {steps: 5});
    await viewer.page.mouse.up();
    expect(await widthOf()).toBe(before + 120);
    await viewer.page.reload();
    await viewer.settled();
    expect(await widthOf()).toBe(before + 120);
    await viewer.page.focus('main > .splitter');
    await viewer.page.keyboard.press('ArrowRight');
    expect(await widthOf()).toBe(before + 96);
    expect(viewer.errors).toEqual([]);
    await viewer.page.close();
  });

  it('has in Segments the colours of the segments', async () => {
    const viewer = await Viewer.open(browser, `${server.address}#view=segments`);
    await viewer.page.waitForSelector('.legend >> text=default pool, large blocks');
    const painted = new Map(await viewer.colours());
    const swatches = await viewer.page
      .locator('.legend .swatch')
      .evaluateAll(all => all.map(one => getComputedStyle(one).backgroundColor.replace(/[rgb() ]/g, '')));
    expect(painted.get(swatches[0])).toBeGreaterThan(100);
    await viewer.page.close();
  });
});
