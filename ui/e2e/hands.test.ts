/** Pointer, wheel and keys on the timeline, in a real browser. */

import type {Page} from 'playwright-core';
import {beforeEach, describe, expect, it} from 'vitest';
import {ADDRESS_MS, inPage, recording, serving, Viewer} from './browser';

let viewer: Viewer;
let page: Page;
const served = serving(recording('oom_gpt2_8gib'));
beforeEach(async () => {
  viewer = await Viewer.open(served.browser, served.server.address);
  page = viewer.page;
  return async () => {
    expect(viewer.errors).toEqual([]);
    await page.close();
  };
});

/** The number of entries of the recording. */
const ENTRIES = 1336;

/** Waits until the address has a text, and gives it. */
async function hashWith(part: RegExp): Promise<string> {
  const hash = () => page.evaluate(() => decodeURIComponent(location.hash));
  await expect.poll(hash).toMatch(part);
  return hash();
}

async function visible(part = /x=/): Promise<[number, number]> {
  const hash = await hashWith(part);
  const [, from, to] = /x=([\d.e+-]+?)\.\.([\d.e+-]+)/.exec(hash)!;
  return [Number(from), Number(to)];
}

/** Waits until the entries between two parts of the recording are shown: the address follows a drag while it goes on. */
async function shows(from: number, to: number): Promise<void> {
  const parts = async () => (await visible()).map(entry => entry / ENTRIES);
  await expect.poll(parts).toEqual([expect.closeTo(from, 2), expect.closeTo(to, 2)]);
}

/** Drags in the strip, from one part of its width to another. */
async function dragInStrip(from: number, to: number): Promise<void> {
  const strip = (await page.locator('.plot').boundingBox())!;
  const plot = (await page.locator('.plot canvas').first().boundingBox())!;
  const x = (part: number) => plot.x + plot.width * part;
  await page.mouse.move(x(from), strip.y + 20);
  await page.mouse.down();
  await page.mouse.move(x(to), strip.y + 20, {steps: 5});
  await page.mouse.up();
}

describe('the strip of the whole recording', () => {
  it('shows what is dragged over; the frame is moved by its middle and resized by its ends', async () => {
    await dragInStrip(0.2, 0.6);
    await shows(0.2, 0.6);
    await dragInStrip(0.4, 0.5);
    await shows(0.3, 0.7);
    await dragInStrip(0.7, 0.9);
    await shows(0.3, 0.9);
  });
});

describe('the wheel', () => {
  it('with Ctrl, which is what a pinch sends, zooms the x axis; with Alt the bytes', async () => {
    const at = await viewer.place(0.5, 0.5);
    await page.mouse.move(at.x, at.y);
    await page.keyboard.down('Control');
    await page.mouse.wheel(0, -100);
    await page.keyboard.up('Control');
    expect(await hashWith(/x=/)).not.toContain('y=');
    await page.keyboard.down('Alt');
    await page.mouse.wheel(0, -100);
    await page.keyboard.up('Alt');
    await hashWith(/y=/);
  });
});

describe('Back', () => {
  it('leads from each zoom, then to the place before', async () => {
    await page.keyboard.press('4');
    await hashWith(/view=stacks/);
    await page.keyboard.press('1');
    await expect.poll(() => page.evaluate(() => location.hash)).not.toContain('view');
    await dragInStrip(0.2, 0.6);
    // Longer than gestures that count as one; and the page has followed the pointer to the end.
    await inPage(page, 2000);
    const first = await visible();
    await dragInStrip(0.4, 0.5);
    await expect.poll(async () => (await visible())[0]).not.toBeCloseTo(first[0], 0);
    await inPage(page, ADDRESS_MS);
    await page.goBack();
    await expect.poll(() => visible()).toEqual(first);
    await page.goBack();
    await expect.poll(() => page.evaluate(() => location.hash)).not.toContain('x=');
    await page.goBack();
    await hashWith(/view=stacks/);
  });
});

describe('keys', () => {
  it('go by place: with Caps Lock, and where the layout has other letters', async () => {
    const press = (key: string, code: string) =>
      page.evaluate(
        ([key, code]) => document.body.dispatchEvent(new KeyboardEvent('keydown', {key, code, bubbles: true})),
        [key, code],
      );
    await press('W', 'KeyW');
    const [from, to] = await visible();
    expect(await hashWith(/x=/)).not.toContain('y=');
    await press('ы', 'KeyS');
    await expect.poll(() => page.evaluate(() => location.hash)).not.toContain('x=');
    expect(to - from).toBeLessThan(ENTRIES);
    await press('.', 'Slash');
    expect(await page.evaluate(() => document.activeElement?.id)).toBe('search');
  });

  it('T keeps the entries that are visible', async () => {
    await dragInStrip(0.3, 0.5);
    const [from, to] = await visible();
    await page.keyboard.press('t');
    await hashWith(/axis=time.*x=/);
    await viewer.settled();
    await page.keyboard.press('t');
    await expect.poll(() => page.evaluate(() => location.hash)).not.toContain('axis');
    const [first, last] = await visible();
    expect(first).toBe(Math.floor(from));
    // Entries of one microsecond are one place on the axis of time.
    expect(Math.abs(last - to)).toBeLessThan(4);
  });

  it('m at both ends measures a stretch, and says what it did', async () => {
    expect(await page.innerText('aside')).toContain('Shift-drag to measure a range');
    const [from, to] = [await viewer.place(0.3, 0.5), await viewer.place(0.45, 0.5)];
    await page.mouse.move(from.x, from.y);
    await page.keyboard.press('m');
    await page.mouse.move(to.x, to.y);
    await page.keyboard.press('m');
    await page.waitForSelector('.range .stretch-sites');
    const words = await page.innerText('.range');
    for (const word of ['allocated', 'freed', 'net', 'activations.py:66']) expect(words).toContain(word);
    expect(await page.innerText('aside')).not.toContain('Shift-drag');
  });
});
