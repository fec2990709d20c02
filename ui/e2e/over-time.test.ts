/** Stacks over time, in a real browser. */

import {expect, it} from 'vitest';
import {launch, recording, Server, Viewer} from './browser';

it('stacks over time weigh what the flame graph weighs, and zoom the time axis', async () => {
  const browser = await launch();
  const server = await Server.start(recording('oom_gpt2_8gib'));
  const viewer = await Viewer.open(browser, `${server.address}#range=370..600`);
  const {page} = viewer;
  const weight = () => page.getAttribute('.subject b', 'title');
  await page.click('.range >> text=stacks of this range');
  await page.waitForSelector('.plot.flame canvas');
  await expect.poll(() => page.innerText('.subject')).toContain('allocated in entries 370 to 599');
  const all = await weight();
  await page.click('.toolbar >> text=over time');
  await page.waitForSelector('canvas.bars');
  expect(await weight()).toBe(all);

  // The last box of the first levels is the forward pass; one of its layers is a part of it.
  const box = (await page.locator('.plot.flame').boundingBox())!;
  await page.mouse.click(box.x + box.width * 0.3, box.y + 19 * 12 + 8);
  await expect.poll(() => page.evaluate(() => location.hash)).toMatch(/x=/);
  await expect.poll(weight).not.toBe(all);
  await page.keyboard.press('0');
  await expect.poll(weight).toBe(all);
  await page.click('.toolbar >> text=left heavy');
  await page.waitForSelector('canvas.bars', {state: 'detached'});
  expect(await weight()).toBe(all);
  expect(viewer.errors).toEqual([]);
  await browser.close();
  await server.stop();
});
