/** The page in windows from a phone's width on. */

import {describe, expect, it} from 'vitest';
import {inPage, recording, serving, Viewer} from './browser';

const served = serving(recording('oom_gpt2_8gib'));

describe('in a window of any width', () => {
  for (const width of [360, 600, 800, 1024, 1600]) {
    it.concurrent(`every view keeps its height at ${width} px`, async () => {
      const viewer = await Viewer.open(served.browser, served.server.address);
      await viewer.page.setViewportSize({width, height: 720});
      for (const key of ['1', '2', '3', '4', '5', '6']) {
        await viewer.page.keyboard.press(key);
        await inPage(viewer.page, 200);
        const {still, tallest} = await heightsAtRest(viewer);
        expect(still, `the height of view ${key} comes to rest`).toBe(true);
        expect(tallest, `the tallest canvas of view ${key}`).toBeLessThanOrEqual(720);
      }
      expect(viewer.errors).toEqual([]);
      await viewer.page.close();
    });
  }

  it('the tab of the open view is in sight', async () => {
    const viewer = await Viewer.open(served.browser, served.server.address);
    await viewer.page.setViewportSize({width: 360, height: 720});
    for (const key of ['6', '1']) {
      await viewer.page.keyboard.press(key);
      const tab = viewer.page.locator(`.views [aria-selected=true][title$="(${key})"]`);
      const isInSight = async () => {
        const {x, width} = (await tab.boundingBox())!;
        return x >= 0 && x + width <= 360;
      };
      await expect.poll(isInSight).toBe(true);
    }
    await viewer.page.close();
  });

  it('the list of entries shows every line whole, and the last one where it is chosen', async () => {
    const viewer = await Viewer.open(served.browser, served.server.address);
    for (const width of [600, 1280]) {
      await viewer.page.setViewportSize({width, height: 720});
      await viewer.page.keyboard.press('2');
      await viewer.page.waitForSelector('.entries .line');
      await viewer.page.keyboard.press('End');
      await viewer.page.waitForSelector('.entries .line:last-child.chosen');
      const [list, ...lines] = await viewer.page.evaluate(() =>
        [document.querySelector('[aria-label=Entries]')!, ...document.querySelectorAll('.entries .line')].map(
          element => {
            const {top, bottom} = element.getBoundingClientRect();
            return {top, bottom};
          },
        ),
      );
      expect(lines.length).toBeGreaterThan(2);
      expect(lines.map(line => line.top - list.top)).toEqual(lines.map((_, i) => 20 * i));
      expect(lines.at(-1)!.bottom).toBeLessThanOrEqual(list.bottom);
    }
    await viewer.page.close();
  });
});

describe('the list of entries', () => {
  it('shows the whole call site of the chosen entry, however narrow the list is', async () => {
    const viewer = await Viewer.open(served.browser, served.server.address);
    for (const width of [360, 800, 1024, 1600]) {
      await viewer.page.setViewportSize({width, height: 720});
      await viewer.page.keyboard.press('2');
      const whole = viewer.page.locator('.entries .whole-site');
      const site = await viewer.page.locator('.entries .line.chosen .site').textContent();
      await expect.poll(() => whole.textContent()).toBe(site);
      const isCut = await whole.evaluate(({scrollWidth, clientWidth}) => scrollWidth > clientWidth);
      expect(isCut, `${width} px`).toBe(false);
    }
    await viewer.page.close();
  });

  it('has its width again where a narrow window becomes wide', async () => {
    const page = await served.browser.newPage({viewport: {width: 360, height: 720}});
    await page.goto(`${served.server.address}#view=state`);
    await page.waitForSelector('.entries .line');
    await page.setViewportSize({width: 1600, height: 720});
    await expect.poll(async () => (await page.locator('.entries').boundingBox())!.width).toBeGreaterThan(400);
    await page.close();
  });
});

describe('in a window as wide as a phone', () => {
  const pair = serving(recording('linear_forward'), recording('leak_grows'));
  // Long settings, bounds from and to, and iterations with phases.
  const wide = serving(recording('fuzz_gc08split64'));
  const phases = serving(recording('annotated'));

  it('no card is wider than the window leaves it', async () => {
    for (const [of, key, part] of [
      [served, '5', '.sites'],
      [served, '6', '.fit'],
      [wide, '6', '.fit'],
      [phases, '5', '.iterations'],
    ] as const) {
      const single = await Viewer.open(of.browser, of.server.address);
      await single.page.keyboard.press(key);
      await single.page.waitForSelector(part);
      expect(await widerThanTheirCard(single), `view ${key}`).toEqual([]);
      expect(single.errors).toEqual([]);
      await single.page.close();
    }
    const both = await Viewer.open(pair.browser, pair.server.address);
    await both.page.keyboard.press('7');
    await both.page.waitForSelector('.changes');
    expect(await widerThanTheirCard(both), 'the comparison').toEqual([]);
    expect(both.errors).toEqual([]);
    await both.page.close();
  });

  it('every view has its tab in sight, and an entry the line of its call site', async () => {
    const viewer = await Viewer.open(served.browser, served.server.address);
    await viewer.page.setViewportSize({width: 360, height: 720});
    for (const tab of await viewer.page.locator('.views .tab').all()) {
      const {x, width} = (await tab.boundingBox())!;
      expect(x >= 0 && x + width <= 360, await tab.innerText()).toBe(true);
    }
    await viewer.page.keyboard.press('2');
    await viewer.page.keyboard.press('o');
    await viewer.page.waitForSelector('.entries .line.chosen');
    const cut = await viewer.page.evaluate(() =>
      [...document.querySelectorAll('.entries .site')]
        .filter(site => {
          const [text] = site.childNodes;
          const end = text?.textContent?.search(/:\d+ /) ?? -1;
          if (!text || end < 0) return false;
          const range = document.createRange();
          range.setStart(text, 0);
          range.setEnd(text, text.textContent!.indexOf(' ', end));
          return range.getBoundingClientRect().right > site.getBoundingClientRect().right - 10;
        })
        .map(site => site.textContent),
    );
    expect(cut).toEqual([]);
    await viewer.page.close();
  });
});

/** The headings of cards, in a narrow window, whose contents would have to be scrolled. */
async function widerThanTheirCard(viewer: Viewer): Promise<(string | undefined)[]> {
  await viewer.page.setViewportSize({width: 360, height: 720});
  await inPage(viewer.page, 200);
  const cards = await viewer.page.evaluate(() =>
    [...document.querySelectorAll('.card')]
      .filter(card => card.scrollWidth > card.clientWidth)
      .map(card => card.querySelector('h2')?.textContent ?? card.className),
  );
  await viewer.page.setViewportSize({width: 1280, height: 720});
  return cards;
}

/** Waits until the page and its canvases have kept their heights for 90 frames in a row; a page that runs away never does. */
function heightsAtRest(viewer: Viewer): Promise<{still: boolean; tallest: number}> {
  return viewer.page.evaluate(async () => {
    const canvases = () => [...document.querySelectorAll('canvas')].map(one => one.clientHeight);
    const heights = () => [document.documentElement.scrollHeight, ...canvases()].join();
    let last = heights();
    let still = 0;
    for (let frame = 0; frame < 900 && still < 90; frame++) {
      await new Promise(requestAnimationFrame);
      const now = heights();
      still = now === last ? still + 1 : 0;
      last = now;
    }
    return {still: still === 90, tallest: Math.max(0, ...canvases())};
  });
}
