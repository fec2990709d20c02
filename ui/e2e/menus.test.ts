/** Menus of a right click and of Shift+F10, and frames in an editor. */

import {writeFileSync} from 'node:fs';
import {join} from 'node:path';
import type {Page} from 'playwright-core';
import {beforeEach, describe, expect, it} from 'vitest';
import {recording, Server, scratch, serving, Viewer} from './browser';

let viewer: Viewer;
let page: Page;
const served = serving(recording('oom_gpt2_8gib'));

function items(): Promise<string[]> {
  return page.locator('.menu [role^=menuitem]').allInnerTexts();
}

/** What was copied last, whatever the browser grants. */
async function watchClipboard(): Promise<() => Promise<string>> {
  await page.evaluate(() => {
    const copied = {text: ''};
    Object.assign(window, {copied});
    navigator.clipboard.writeText = async text => {
      copied.text = text;
    };
  });
  return () => page.evaluate(() => (window as unknown as {copied: {text: string}}).copied.text);
}

describe('a menu', () => {
  beforeEach(async () => {
    viewer = await Viewer.open(served.browser, served.server.address);
    page = viewer.page;
    return async () => {
      expect(viewer.errors).toEqual([]);
      await page.close();
    };
  });

  it('of a block copies, searches and leads to its stacks', async () => {
    const copied = await watchClipboard();
    const at = await viewer.place(0.42, 0.7);
    await page.mouse.click(at.x, at.y, {button: 'right'});
    await page.waitForSelector('.menu');
    expect(await items()).toEqual(
      expect.arrayContaining(['Pin it', 'Copy address', 'Search for it', 'Stacks of this']),
    );
    await page.click('.menu >> text=Copy stack');
    expect(await copied()).toContain('activations.py:66 forward\n');
    await page.mouse.click(at.x, at.y, {button: 'right'});
    await page.click('.menu >> text=Copy address');
    expect(await copied()).toMatch(/^0x[0-9a-f]+$/);
    await page.mouse.click(at.x, at.y, {button: 'right'});
    await page.click('.menu >> text=Stacks of this');
    await page.waitForSelector('.plot.flame');
    await expect.poll(() => page.innerText('.subject')).toContain('matched');
  });

  it('is opened by Shift+F10, walked with arrows, and closed by Escape', async () => {
    const at = await viewer.place(0.42, 0.7);
    await page.mouse.click(at.x, at.y);
    await page.waitForSelector('.pinned');
    await page.keyboard.press('Shift+F10');
    await page.waitForSelector('.menu');
    expect(await items()).not.toContain('Pin it');
    const focused = () => page.evaluate(() => document.activeElement?.textContent ?? '');
    const first = await focused();
    await page.keyboard.press('ArrowDown');
    expect(await focused()).not.toBe(first);
    await page.keyboard.press('ArrowUp');
    expect(await focused()).toBe(first);
    await page.keyboard.press('Escape');
    expect(await page.locator('.menu').count()).toBe(0);
    expect(await page.locator('.pinned').count()).toBe(1);

    await page.focus('.pinned .frames button');
    await page.keyboard.press('Shift+F10');
    expect(await items()).toContain('Copy path and line');
    await page.keyboard.press('Escape');
    expect(await page.evaluate(() => document.activeElement?.className)).toContain('frame-link');
  });

  it('of a line of the legend finds what it stands for', async () => {
    await page.click('.legend tr:first-child', {button: 'right'});
    await page.click('.menu >> text=Search for it');
    await expect.poll(() => page.innerText('.hits')).toMatch(/^[1-9]\d* found/);
  });

  it('of a box hides the stacks through it, and shows them again', async () => {
    await page.keyboard.press('4');
    await page.waitForSelector('.plot.flame canvas');
    await expect.poll(() => page.innerText('.subject')).toContain('7.86 GiB');
    const box = (await page.locator('.plot.flame').boundingBox())!;
    // The box of the heaviest stack: at the left, some levels down.
    await page.mouse.click(box.x + 40, box.y + 19 * 12 + 8, {button: 'right'});
    await page.click('.menu >> text=Hide all stacks');
    await expect.poll(() => page.innerText('.subject')).toContain('without 1 frame');
    await expect.poll(() => page.innerText('.subject')).not.toContain('7.86 GiB');
    await page.click('.subject .chip');
    await expect.poll(() => page.innerText('.subject')).toContain('7.86 GiB');
  });

  it('of a frame chooses the editor that a click opens', async () => {
    const copied = await watchClipboard();
    const at = await viewer.place(0.42, 0.7);
    await page.mouse.click(at.x, at.y);
    await page.click('.pinned .frames button >> nth=0');
    expect(await copied()).toMatch(/^\/.*activations\.py:66$/);
    await page.click('.pinned .frames button >> nth=0', {button: 'right'});
    const link = page.locator('.menu a >> text=Open in VS Code');
    expect(await link.getAttribute('href')).toMatch(/^vscode:\/\/file\/.*activations\.py:66$/);
    await page.click('.menu >> text=in another editor');
    await page.fill('dialog.editor input', 'javascript://{file}');
    await page.click('dialog.editor >> text=Use it');
    expect(await page.innerText('dialog.editor [role=alert]')).toContain('scheme of an editor');
    await page.fill('dialog.editor input', 'cursor://file{file}:{line}');
    await page.click('dialog.editor >> text=Use it');
    const frame = page.locator('.pinned .frames a >> nth=0');
    expect(await frame.getAttribute('href')).toMatch(/^cursor:\/\/file\/.*activations\.py:66$/);
    // The address follows what is pinned.
    await expect.poll(() => viewer.hash()).toContain('row=');
    await page.reload();
    await viewer.settled();
    expect(await page.locator('.pinned .frames a >> nth=0').getAttribute('href')).toMatch(/^cursor:/);
  });
});

describe('frames that are called like programs', () => {
  const files = [
    'javascript:alert(1)',
    '/x" onclick="alert(2).py',
    '/<img src=x onerror=alert(3)>.py',
    'data:text/html,x',
  ];
  const frames = files.map((filename, i) => ({name: `<b>f${i}</b>`, filename, line: 1}));
  const entry = (action: string, size: number) => ({action, addr: 2 ** 40, size, stream: 0, time_us: 1, frames});
  const snapshot = {segments: [], device_traces: [[entry('segment_alloc', 2 ** 21), entry('alloc', 2 ** 20)]]};

  it('are text in every menu, and no address but an editor’s', async () => {
    const file = join(scratch(), 'evil.json');
    writeFileSync(file, JSON.stringify(snapshot));
    const evil = await Server.start(file);
    viewer = await Viewer.open(served.browser, `${evil.address}#row=0`);
    page = viewer.page;
    await page.waitForSelector('.pinned .frames button');
    const count = await page.locator('.pinned .frames button').count();
    expect(count).toBe(files.length);
    for (let i = 0; i < count; i++) {
      await page.locator('.pinned .frames button').nth(i).click({button: 'right'});
      await page.waitForSelector('.menu');
      for (const href of await page.locator('.menu a').evaluateAll(links => links.map(a => a.getAttribute('href')))) {
        expect(href).toMatch(/^(vscode|idea):\/\/[!#-;=?-~]*$/);
      }
      await page.keyboard.press('Escape');
    }
    expect(await page.locator('.menu img, .pinned img, .pinned b b').count()).toBe(0);
    expect(viewer.errors).toEqual([]);
    await page.close();
    await evil.stop();
  });
});
