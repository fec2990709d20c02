/** What the plots paint, compared pixel by pixel. */

import {describe, expect, it} from 'vitest';
import {inPage, live, recording, run, Server, serving, Viewer} from './browser';

const served = serving(recording('oom_gpt2_8gib'));

describe('a page that opens', () => {
  it('asks for its picture once, and for that of the strip once', async () => {
    const page = await served.browser.newPage({viewport: {width: 1440, height: 900}});
    await page.addInitScript(() => {
      const asked: number[] = [];
      Object.assign(globalThis, {asked});
      const post = Worker.prototype.postMessage;
      Worker.prototype.postMessage = function (this: Worker, message, ...rest: []) {
        const {method, args} = message as {method: string; args: {width: number}[]};
        if (method === 'timeline') asked.push(args[0].width);
        post.call(this, message, ...rest);
      };
    });
    await page.goto(served.server.address);
    await page.waitForSelector('.plot[data-picture=exact]');
    await page.waitForFunction(() => (globalThis as unknown as {asked: number[]}).asked.length > 1);
    // A third would come with a layout that is found later: of the fonts, the panel or the scroll bars.
    await inPage(page, 1000);
    const widths = await page.evaluate(() => (globalThis as unknown as {asked: number[]}).asked);
    expect(widths.length).toBe(2);
    expect(new Set(widths).size).toBe(2);
    await page.close();
  });
});

describe('a colour that is chosen', () => {
  for (const colour of ['stack', 'category', 'stream', 'pool', 'size']) {
    it(`paints by ${colour} what a reload paints`, async () => {
      const viewer = await Viewer.open(served.browser, served.server.address);
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

describe('the legend', () => {
  it('has every category of the picture, also those with nothing at the cursor', async () => {
    const file = recording('annotated');
    const annotated = await Server.start(file);
    const viewer = await Viewer.open(served.browser, `${annotated.address}#colour=category&at=100`);
    await viewer.page.waitForFunction(() => document.querySelector('.moment h2')?.textContent?.includes('entry 100'));
    const rows = viewer.page.locator('.legend tr');
    const names = await rows.evaluateAll(all => all.map(row => row.querySelector('.label')!.textContent));
    const faint = await viewer.page
      .locator('.legend tr.faint')
      .evaluateAll(all => all.map(row => row.querySelector('.label')!.textContent));
    expect(names).toEqual(expect.arrayContaining(['activation', 'gradient', 'parameter']));
    expect(new Set(names).size).toBe(names.length);
    expect(names.length - faint.length).toBe(new Set(live(file, 100).map(({category}) => category)).size);

    // The colours of the picture are those of the legend.
    const swatches = await viewer.page
      .locator('.legend .swatch')
      .evaluateAll(all => all.map(one => getComputedStyle(one).backgroundColor.replace(/[rgb() ]/g, '')));
    const painted = new Map(await viewer.colours());
    for (const name of ['activation', 'gradient', 'parameter'])
      expect(painted.get(swatches[names.indexOf(name)]), name).toBeGreaterThan(100);

    // What is read there can be searched.
    await viewer.page.hover('.legend tr:has-text("optimizer state")');
    await viewer.page.click('.legend tr:has-text("optimizer state") .find');
    await viewer.page.waitForFunction(() =>
      /^[1-9][\d,]* found/.test(document.querySelector('.hits')?.textContent ?? ''),
    );
    await viewer.page.close();
    await annotated.stop();
  });
});

describe('the level that reserved memory could not pass', () => {
  it('has the words of the report, and is in view', async () => {
    const [label] = /limit below [\d.]+ GiB/.exec(run('report', recording('oom_gpt2_8gib'))) ?? [];
    expect(label).toBeDefined();
    const context = await served.browser.newContext();
    await context.addInitScript(() => {
      const words = new Set<string>();
      Object.assign(window, {words});
      const write = CanvasRenderingContext2D.prototype.fillText;
      CanvasRenderingContext2D.prototype.fillText = function (text, ...at) {
        words.add(text);
        write.call(this, text, ...at);
      };
    });
    const viewer = await Viewer.open(context, served.server.address);
    const words = await viewer.page.evaluate(() => [...(window as unknown as {words: Set<string>}).words]);
    expect(words).toContain(label);
    expect(viewer.errors).toEqual([]);
    await context.close();
  });
});
