/** The whole page in a real browser, over real recordings. */

import {readFileSync, writeFileSync} from 'node:fs';
import {join} from 'node:path';
import {pathToFileURL} from 'node:url';
import type {Browser} from 'playwright-core';
import {afterAll, beforeAll, describe, expect, it} from 'vitest';
import {bytesOf, drop, inPage, launch, live, recording, run, Server, scratch, Viewer} from './browser';
import {serveMadeUp} from './made-up';

const OOM = recording('oom_gpt2_8gib');
/** Its one out-of-memory error: `highwater report` says so. */
const OOM_ENTRY = 590;

let browser: Browser;
beforeAll(async () => {
  browser = await launch();
});
afterAll(() => browser.close());

describe('a served recording', () => {
  let server: Server;
  beforeAll(async () => {
    server = await Server.start(OOM, recording('linear_forward'));
  });
  afterAll(() => server.stop());

  it('shows at every place the allocation that `highwater live` has there', async () => {
    const viewer = await Viewer.open(browser, server.address);
    for (const [x, y] of [
      [0.3, 0.95],
      [0.42, 0.7],
      [0.44, 0.3],
      [0.47, 0.55],
      [0.6, 0.93],
    ]) {
      const at = await viewer.place(x, y);
      await viewer.page.mouse.click(at.x, at.y);
      await viewer.page.waitForSelector('.pinned');
      await viewer.settled();
      const facts = await viewer.facts();
      const entry = Number(/at=(\d+)/.exec(await viewer.hash())?.[1]);
      const [address] = facts.address.split(' ');
      const block = live(OOM, entry).find(one => one.address === Number(address));
      expect(block, `${address} after entry ${entry}`).toBeDefined();
      expect(bytesOf(facts.size)).toBe(block!.size_bytes);
      expect(bytesOf(facts.requested)).toBe(block!.requested_bytes);
      await viewer.page.keyboard.press('Escape');
    }
    expect(viewer.errors).toEqual([]);
    await viewer.page.close();
  });

  it('has at every entry the total of the analysis', async () => {
    const viewer = await Viewer.open(browser, server.address);
    for (const entry of [0, 1, 367, 500, 589, 590, 700, 1332]) {
      await viewer.page.goto(`${server.address}#at=${entry}`);
      await viewer.page.waitForFunction(
        text => document.querySelector('.moment h2')?.textContent?.includes(text),
        `entry ${entry.toLocaleString('en')}`,
      );
      const want = live(OOM, entry).reduce((sum, block) => sum + block.size_bytes, 0);
      expect(await viewer.activeBytes(), `after entry ${entry}`).toBe(want);
    }
    await viewer.page.close();
  });

  it('is searched, and what is not found fades', async () => {
    const viewer = await Viewer.open(browser, server.address);
    const before = await viewer.colours();
    await viewer.page.keyboard.press('/');
    await viewer.page.keyboard.type('activations.py');
    await viewer.page.waitForSelector('.hits');
    await viewer.settled();
    expect(await viewer.page.innerText('.hits')).toMatch(/^\d+ found/);
    const after = new Map(await viewer.colours());
    // The colour of what was found stays; of the others, at least one is gone.
    const [, ...bands] = before.slice(0, 6).map(([colour]) => colour);
    expect(bands.some(colour => after.has(colour))).toBe(true);
    expect(bands.some(colour => !after.has(colour))).toBe(true);

    await viewer.page.keyboard.press('Enter');
    await viewer.page.waitForSelector('.pinned');
    expect(await viewer.page.innerText('.pinned .frames')).toContain('activations.py');

    await viewer.page.fill('#search', 'size>lots');
    await viewer.page.waitForSelector('.hits.problem');
    expect(await viewer.page.innerText('.hits.problem')).toContain('`lots` is not a size');
    await viewer.page.close();
  });

  it('gives the totals of a stretch that is dragged over', async () => {
    const viewer = await Viewer.open(browser, server.address);
    const [from, to] = [await viewer.place(0.2, 0.5), await viewer.place(0.6, 0.5)];
    await viewer.page.keyboard.down('Shift');
    await viewer.page.mouse.move(from.x, from.y);
    await viewer.page.mouse.down();
    await viewer.page.mouse.move(to.x, to.y, {steps: 4});
    await viewer.page.mouse.up();
    await viewer.page.keyboard.up('Shift');
    await viewer.page.waitForSelector('.range');
    const facts = await viewer.page.innerText('.range .facts');
    const [first, last] = (await viewer.hash())
      .match(/range=(\d+)\.\.(\d+)/)!
      .slice(1)
      .map(Number);
    const before = new Set(live(OOM, first - 1).map(({address}) => address));
    const kept = live(OOM, last - 1).filter(({address}) => !before.has(address));
    expect(facts).toContain(`in ${kept.length} allocations still active after it`);
    await viewer.page.close();
  });

  it('is scrubbed to its out-of-memory error in the state view', async () => {
    const viewer = await Viewer.open(browser, server.address);
    await viewer.page.keyboard.press('2');
    await viewer.page.waitForSelector('.scrubber');
    const box = (await viewer.page.locator('.scrubber').boundingBox())!;
    await viewer.page.mouse.move(box.x + 10, box.y + 20);
    await viewer.page.mouse.down();
    await viewer.page.mouse.move(box.x + box.width * 0.4, box.y + 20, {steps: 20});
    await viewer.page.mouse.up();
    await viewer.page.keyboard.press('o');
    await viewer.page.waitForSelector(`.plot[data-entry="${OOM_ENTRY}"]`);
    await viewer.settled();
    expect(await viewer.page.innerText('.toolbar')).toContain('out of memory');
    expect(await viewer.page.innerText('.line.chosen')).toContain('oom');
    const blocks = live(OOM, OOM_ENTRY);
    expect(await viewer.page.innerText('.toolbar')).toContain(`active in ${blocks.length} blocks`);

    await viewer.page.keyboard.press('ArrowUp');
    await viewer.page.waitForSelector(`.plot[data-entry="${OOM_ENTRY - 1}"]`);
    expect(viewer.errors).toEqual([]);
    await viewer.page.close();
  });

  it('looks the same after a reload, from its address alone', async () => {
    const viewer = await Viewer.open(browser, server.address);
    const at = await viewer.place(0.45, 0.5);
    await viewer.page.mouse.move(at.x, at.y);
    await viewer.page.mouse.wheel(0, -400);
    await viewer.page.mouse.click(at.x, at.y);
    await viewer.page.fill('#search', 'modeling_gpt2');
    await viewer.page.selectOption('.toolbar select', 'size');
    await viewer.page.click('[aria-label^="Theme"]');
    await viewer.page.click('[aria-label^="Theme"]');
    await viewer.settled();
    const [picture, facts, address] = [await viewer.picture(), await viewer.facts(), await viewer.hash()];
    expect(address).toMatch(/x=.*row=.*at=.*q=modeling_gpt2.*colour=size.*theme=dark/);

    await viewer.page.reload();
    await viewer.settled();
    await viewer.page.waitForSelector('.pinned');
    await viewer.settled();
    expect(await viewer.facts()).toEqual(facts);
    expect(await viewer.picture()).toBe(picture);
    expect(await viewer.page.evaluate(() => document.documentElement.dataset.theme)).toBe('dark');

    await viewer.page.goBack();
    await viewer.page.waitForSelector('.pinned', {state: 'detached'});
    await viewer.page.close();
  });

  it('has the peak in its flame graph, and the frames of what was pinned in its table', async () => {
    const viewer = await Viewer.open(browser, server.address);
    await viewer.page.keyboard.press('4');
    const report = JSON.parse(run('report', OOM, '--format', 'json'));
    const gib = (report.devices[0].peak.active_bytes / 2 ** 30).toFixed(2);
    await viewer.page.waitForFunction(
      text => document.body.innerText.replace(/\s+/g, ' ').includes(text),
      `${gib} GiB active at the peak`,
    );
    await viewer.page.click('text=Table');
    await viewer.page.waitForSelector('.frames-table');
    expect(await viewer.page.innerText('.frames-table')).toContain('activations.py:66');
    expect(viewer.errors).toEqual([]);
    await viewer.page.close();
  });

  it('says in its summary what the report says', async () => {
    const viewer = await Viewer.open(browser, server.address);
    await viewer.page.keyboard.press('5');
    await viewer.page.waitForSelector('text=Verdict');
    const report = JSON.parse(run('report', OOM, '--format', 'json'));
    expect((await viewer.page.innerText('main')).replace(/\s+/g, ' ')).toContain(report.verdict.replaceAll('`', ''));
    expect(viewer.errors).toEqual([]);
    await viewer.page.close();
  });

  it('simulates settings, and says why some are refused', async () => {
    const viewer = await Viewer.open(browser, server.address);
    await viewer.page.keyboard.press('6');
    await viewer.page.waitForSelector('table.fit');
    await viewer.page.fill('input[placeholder="default settings"]', 'expandable_segments:Maybe');
    await viewer.page.click('button:has-text("Simulate")');
    await viewer.page.waitForSelector('.problem-card');
    expect(await viewer.page.innerText('.problem-card')).toContain('expandable_segments');
    await viewer.page.fill('input[placeholder="default settings"]', 'expandable_segments:True');
    await viewer.page.click('button:has-text("Simulate")');
    await viewer.page.waitForSelector('.problem-card', {state: 'detached'});
    await viewer.page.close();
  });

  it('gives way to a file that is dropped on the page', async () => {
    const viewer = await Viewer.open(browser, server.address);
    await drop(viewer, 'leak.pickle.gz', readFileSync(recording('linear_forward')));
    await viewer.page.waitForFunction(() => document.title.startsWith('leak.pickle.gz'));
    await viewer.settled();
    const peak = await viewer.activeBytes();
    const report = JSON.parse(run('report', recording('linear_forward'), '--format', 'json'));
    expect(peak).toBe(report.devices[0].peak.active_bytes);

    await drop(viewer, 'model.zip', Buffer.from('PK\x03\x04 not a snapshot'));
    await viewer.page.waitForSelector('.problem-card');
    const words = await viewer.page.innerText('.problem-card');
    expect(words).toContain('model.zip');
    expect(words).toContain('hint:');
    await viewer.page.waitForSelector('nav.files >> text=⚠ model.zip');
    await viewer.page.close();
  });

  it('says what is wrong when the program has ended', async () => {
    const ending = await Server.start(OOM);
    const viewer = await Viewer.open(browser, ending.address);
    expect(await ending.stop()).toBe(0);
    await viewer.page.keyboard.press('5');
    await viewer.page.waitForSelector('.problem-card');
    expect(await viewer.page.innerText('.problem-card')).toContain('highwater view');
    await viewer.page.close();
  });
});

describe('ten million entries', () => {
  it('are zoomed to one allocation of 512 bytes', async () => {
    const made = await serveMadeUp(10_000_000);
    const viewer = await Viewer.open(browser, made.address);
    await viewer.page.fill('#search', 'size:512');
    await viewer.page.waitForFunction(() => document.querySelector('.hits')?.textContent?.startsWith('1 found'));
    await viewer.page.press('#search', 'Enter');
    await viewer.page.waitForSelector('.pinned');
    await viewer.page.evaluate(() => (document.activeElement as HTMLElement).blur());
    await viewer.page.keyboard.press('f');
    await viewer.page.waitForFunction(() => location.hash.includes('y='));
    await viewer.settled();
    const facts = await viewer.facts();
    expect(facts.size).toBe('512 B');
    const {start, end} = made.needle;
    const [from, to] = (await viewer.hash())
      .match(/x=([\d.]+?)\.\.([\d.]+)/)!
      .slice(1)
      .map(Number);
    expect(from).toBeLessThan(start);
    expect(to).toBeGreaterThan(end);
    expect(to - from).toBeLessThan(3 * (end - start));
    // Its band is there to be clicked, where it begins: a fifth of the height, in the middle.
    await viewer.page.keyboard.press('Escape');
    const band = await viewer.place((start + 2 - from) / (to - from), 0.5);
    await viewer.page.mouse.click(band.x, band.y);
    await viewer.page.waitForSelector('.pinned');
    expect((await viewer.facts()).size).toBe('512 B');
    expect(viewer.errors).toEqual([]);
    await viewer.page.close();
    made.stop();
  });
});

describe('a single file', () => {
  it('opens from the disk with the network off, and shows the same', async () => {
    const page = join(scratch(), 'page.html');
    run('export', '--to', 'html', OOM, '-o', page);
    const server = await Server.start(OOM);
    const served = await Viewer.open(browser, server.address);
    const context = await browser.newContext({offline: true});
    const single = await Viewer.open(context, pathToFileURL(page).href);
    expect(await single.picture()).toBe(await served.picture());
    expect(await single.activeBytes()).toBe(await served.activeBytes());
    for (const key of ['2', '3', '4', '5', '6', '1']) {
      await single.page.keyboard.press(key);
      await inPage(single.page, 300);
    }
    expect(await single.page.locator('.problem-card').count()).toBe(0);
    expect(single.errors).toEqual([]);
    await context.close();
    await served.page.close();
    await server.stop();
  });
});

describe('a snapshot whose names are markup', () => {
  const evil = '<img src=x onerror=alert(1)></script><script>alert(2)</script>';
  const frames = [{name: evil, filename: `${evil}.py`, line: 1}];
  const entry = (action: string, addr: number, size: number) => ({action, addr, size, stream: 0, time_us: 1, frames});
  const snapshot = {
    segments: [],
    device_traces: [
      [entry('segment_alloc', 2 ** 40, 2 ** 21), entry('alloc', 2 ** 40, 4096), entry('oom', 0, 2 ** 30)],
    ],
    allocator_settings: {[evil]: evil},
  };

  it('is shown as text, served and as a single file', async () => {
    const folder = scratch();
    const file = join(folder, 'evil<b>.json');
    writeFileSync(file, JSON.stringify(snapshot));
    const page = join(folder, 'page.html');
    run('export', '--to', 'html', file, '-o', page);
    const server = await Server.start(file);
    for (const address of [server.address, pathToFileURL(page).href]) {
      const viewer = await Viewer.open(browser, address);
      for (const key of ['1', '2', '3', '4', '5', '6']) {
        await viewer.page.keyboard.press(key);
        await inPage(viewer.page, 250);
      }
      await viewer.page.keyboard.press('1');
      await viewer.page.waitForSelector('.legend');
      expect(await viewer.page.innerText('.legend')).toContain('<img src=x');
      expect(await viewer.page.locator('img').count()).toBe(0);
      expect(viewer.errors).toEqual([]);
      await viewer.page.close();
    }
    await server.stop();
  });
});

describe('a snapshot of several devices', () => {
  const entry = (action: string, addr: number, size: number) => ({
    action,
    addr,
    size,
    stream: 0,
    time_us: 1,
    frames: [],
  });
  const device = (address: number, ...more: object[]) => [
    entry('segment_alloc', address, 2 ** 21),
    entry('alloc', address, 4096),
    ...more,
  ];
  const snapshot = {
    segments: [],
    device_traces: [device(2 ** 40, entry('alloc', 2 ** 40 + 4096, 8192)), device(2 ** 41, entry('oom', 0, 2 ** 30))],
  };

  it('opens on the one that ran out of memory, served and as a single file', async () => {
    const folder = scratch();
    const file = join(folder, 'two.json');
    writeFileSync(file, JSON.stringify(snapshot));
    const page = join(folder, 'page.html');
    run('export', '--to', 'html', file, '-o', page);
    const server = await Server.start(file);
    for (const address of [server.address, pathToFileURL(page).href]) {
      const viewer = await Viewer.open(browser, address);
      expect(await viewer.page.inputValue('select[aria-label="Device"]')).toBe('1');
      expect(viewer.errors).toEqual([]);
      await viewer.page.close();
    }
    await server.stop();
  });
});
