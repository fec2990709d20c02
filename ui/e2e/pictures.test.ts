/** What the plots paint, compared pixel by pixel. */

import type {Browser} from 'playwright-core';
import {afterAll, beforeAll, describe, expect, it} from 'vitest';
import {launch, recording, run, Server, Viewer} from './browser';

let browser: Browser;
let server: Server;
beforeAll(async () => {
  browser = await launch();
  server = await Server.start(recording('oom_gpt2_8gib'));
});
afterAll(async () => {
  await browser.close();
  await server.stop();
});

describe('a colour that is chosen', () => {
  for (const colour of ['stack', 'category', 'stream', 'pool', 'size']) {
    it(`paints by ${colour} what a reload paints`, async () => {
      const viewer = await Viewer.open(browser, server.address);
      await viewer.page.selectOption('.toolbar select', colour);
      await viewer.page.waitForFunction(colour => location.hash.includes(`colour=${colour}`), colour);
      await viewer.settled();
      const chosen = await viewer.picture();
      await viewer.page.reload();
      await viewer.settled();
      expect((await viewer.picture()) === chosen, 'the same pixels').toBe(true);
      expect(viewer.errors).toEqual([]);
      await viewer.page.close();
    });
  }
});

describe('the level that reserved memory could not pass', () => {
  it('has the words of the report, and is in view', async () => {
    const [label] = /limit below [\d.]+ GiB/.exec(run('report', recording('oom_gpt2_8gib'))) ?? [];
    expect(label).toBeDefined();
    const context = await browser.newContext();
    await context.addInitScript(() => {
      const words = new Set<string>();
      Object.assign(window, {words});
      const write = CanvasRenderingContext2D.prototype.fillText;
      CanvasRenderingContext2D.prototype.fillText = function (text, ...at) {
        words.add(text);
        write.call(this, text, ...at);
      };
    });
    const viewer = await Viewer.open(context, server.address);
    const words = await viewer.page.evaluate(() => [...(window as unknown as {words: Set<string>}).words]);
    expect(words).toContain(label);
    expect(viewer.errors).toEqual([]);
    await context.close();
  });
});
