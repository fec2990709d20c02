/** Memory outside PyTorch: bands over the timeline, blocks in the address space, colours of ranks. */

import {readFileSync} from 'node:fs';
import {join} from 'node:path';
import {describe, expect, it} from 'vitest';
import {drop, inPage, ROOT, recording, run, serving, Viewer} from './browser';

const NCCL = join(ROOT, 'testdata/whole_card/nccl.pickle.gz');
const PROFILE = join(ROOT, 'testdata/nsight/2024.sqlite');
const REAL = join(ROOT, 'testdata/nsight/2025.sqlite');
const STREAMS = join(ROOT, 'testdata/whole_card/streams.pickle.gz');

interface Owner {
  title: string;
  role: string;
  counts: boolean;
  bytes: number;
}

/** The owners at the card's peak, as `highwater report` has them, without PyTorch's own. */
function owners(file: string): Owner[] {
  const {driver} = JSON.parse(run('report', file, '--format', 'json'));
  return driver.cards[0].peak.owners.filter(({role, counts}: Owner) => counts && role !== 'pytorch');
}

/** The choice whether it is shown. */
function choiceIn({page}: Viewer) {
  return page.getByRole('combobox', {name: 'outside PyTorch'});
}

/** The words of the card at places of the plot from the top to the bottom, and the entry after which each is. */
async function sweep(viewer: Viewer, x: number): Promise<string[]> {
  const words: string[] = [];
  for (let y = 0.03; y < 1; y += 0.06) {
    const at = await viewer.place(x, y);
    await viewer.page.mouse.move(at.x, at.y);
    await inPage(viewer.page, 60);
    words.push((await viewer.page.locator('.tooltip').count()) > 0 ? await viewer.page.innerText('.tooltip') : '');
  }
  return words;
}

describe('a recording of the driver', () => {
  const served = serving(NCCL, STREAMS, recording('linear_forward'));

  it('lists the owners with the numbers of the report, and the GPU', async () => {
    const viewer = await Viewer.open(served.browser, served.server.address);
    const manifest = await viewer.page.evaluate(() => fetch('api/files/0/manifest').then(file => file.json()));
    const [{outside}] = manifest.devices;
    await viewer.page.goto(`${served.server.address}#at=${outside.peak.entry}`);
    await viewer.settled();
    await viewer.page.waitForSelector('.outside .legend tr');
    const listed = await viewer.page.evaluate(() =>
      [...document.querySelectorAll<HTMLElement>('.outside .legend tr')].map(row => row.title.split(' bytes')[0]),
    );
    const bytes = (owner: Owner) => `${owner.title}: ${owner.bytes.toLocaleString('en')}`;
    expect(listed.sort()).toEqual(owners(NCCL).map(bytes).sort());
    expect(await viewer.page.innerText('.outside .total')).toMatch(/ of 79\.2 GiB$/);
    expect(viewer.errors).toEqual([]);
    await viewer.page.close();
  });

  it('has a band for each owner over the reserved memory, which can be hidden', async () => {
    const viewer = await Viewer.open(served.browser, served.server.address);
    const words = (await sweep(viewer, 0.97)).join('\n');
    for (const {title, bytes} of owners(NCCL)) {
      // A band of a pixel or two is not hit by a sweep.
      if (bytes > 80 << 20) expect(words).toContain(`${title}outside PyTorch`);
    }
    const choice = choiceIn(viewer);
    await choice.selectOption('capacity');
    await viewer.settled();
    expect(await viewer.hash()).toContain('outside=capacity');
    const high = (await sweep(viewer, 0.97)).filter(line => line.includes('outside PyTorch'));
    expect(high.length, '1.6 GiB of 79 is no height').toBeLessThan(2);
    await choice.selectOption('hidden');
    await viewer.settled();
    expect((await sweep(viewer, 0.97)).join('\n')).not.toContain('outside PyTorch');
    await choice.selectOption('shown');
    await viewer.settled();
    expect(await viewer.hash()).not.toContain('outside=');
    expect(viewer.errors).toEqual([]);
    await viewer.page.close();
  });

  it('has its allocations in the address space', async () => {
    const viewer = await Viewer.open(served.browser, `${served.server.address}#view=state&at=100000`);
    const {totals} = {totals: await viewer.page.innerText('.state .toolbar')};
    expect(totals).toMatch(/GiB outside PyTorch/);
    const said: string[] = [];
    for (let y = 0.05; y < 1; y += 0.05) said.push(...(await sweepAt(viewer, y)));
    const nccl = said.find(words => words.includes('of NCCL at 0x'));
    expect(nccl).toMatch(/of NCCL at 0x[0-9a-f]+/);
    expect(nccl).toMatch(/allocated by ncclCommInitRankConfig at \S*whole_card\.py:17[25] nccl/);
    const before = await viewer.picture();
    await choiceIn(viewer).selectOption('hidden');
    await viewer.settled();
    await expect.poll(() => viewer.picture()).not.toBe(before);
    expect(viewer.errors).toEqual([]);
    await viewer.page.close();
  });

  it('colours ranks by it', async () => {
    const viewer = await Viewer.open(served.browser, served.server.address);
    await viewer.page.goto(`${served.server.address}#view=ranks&ranks.form=heat+map&ranks.measure=outside`);
    // Until then the canvas is still the timeline's.
    const colours = viewer.page.getByLabel('Colour by').locator('option');
    await expect.poll(() => colours.allInnerTexts()).toContain('outside PyTorch');
    const measures = await colours.allInnerTexts();
    await viewer.page.waitForSelector('canvas[data-drawn]');
    expect(measures).toContain('NCCL');
    expect(measures).toContain('cuBLAS');
    const canvas = viewer.page.locator('canvas[data-drawn]');
    const box = (await canvas.boundingBox())!;
    const said: string[] = [];
    for (const row of [0, 1, 2]) {
      // All of these rows are shorter than the axis.
      await viewer.page.mouse.move(box.x + 2, box.y + (box.height * (row + 0.5)) / 3);
      await inPage(viewer.page, 60);
      said.push(await viewer.page.innerText('.heat-said'));
    }
    const most = owners(NCCL).reduce((sum, {bytes}) => sum + bytes, 0);
    expect((most / 2 ** 30).toFixed(2)).toBe('1.55');
    expect(said.join('\n')).toMatch(/^nccl\s+1\.55 GiB outside PyTorch/m);
    expect(said.join('\n')).toMatch(/^linear_forward\s+0 B outside PyTorch/m);
    await viewer.page.close();
  });

  it('changes nothing where the driver was not recorded', async () => {
    const viewer = await Viewer.open(served.browser, `${served.server.address}#file=2&outside=capacity`);
    expect(await choiceIn(viewer).count()).toBe(0);
    expect(await viewer.page.locator('.outside').count()).toBe(0);
    expect(viewer.errors).toEqual([]);
    await viewer.page.close();
  });
});

describe('a profile of Nsight Systems', () => {
  const served = serving(PROFILE);

  it('opens at the peak of the GPU, with its allocations in the address space', async () => {
    const viewer = await Viewer.open(served.browser, served.server.address);
    const [card] = JSON.parse(run('report', PROFILE, '--format', 'json')).driver.cards;
    const peak: number = card.peak.bytes;
    await viewer.page.waitForSelector('.outside .total');
    expect(await viewer.page.getAttribute('.outside .total b', 'title')).toBe(`${peak.toLocaleString('en')} bytes`);
    expect(await viewer.page.innerText('aside')).toContain('At the peak');
    await viewer.page.getByRole('tab', {name: 'State'}).click();
    await viewer.settled();
    const totals = await viewer.page.innerText('.state .toolbar');
    expect(totals).toContain('from the driver');
    expect(totals, 'nothing is known of PyTorch').not.toMatch(/active|reserved|outside PyTorch/);
    const said: string[] = [];
    for (let y = 0.02; y < 1; y += 0.04) said.push(...(await sweepAt(viewer, y)));
    expect(said.join('\n')).toMatch(/of cuBLAS at 0x7f00[0-9a-f]+\s*from the driver/);
    expect(said.join('\n')).toContain('allocated by cublasCreate_v2');
    expect(viewer.errors).toEqual([]);
    await viewer.page.close();
  });

  it('can be dropped on the page', async () => {
    const viewer = await Viewer.open(served.browser, served.server.address);
    await drop(viewer, '2025.sqlite', readFileSync(REAL));
    await expect.poll(() => viewer.page.title(), {timeout: 20_000}).toContain('2025.sqlite');
    await viewer.settled();
    await expect.poll(() => viewer.page.locator('.outside .total').innerText()).toMatch(/562 MiB of 79\.2 GiB/);
    expect(viewer.errors).toEqual([]);
    await viewer.page.close();
  });
});

/** The words of the card along a line of the plot. */
async function sweepAt(viewer: Viewer, y: number): Promise<string[]> {
  const words: string[] = [];
  for (const x of [0.05, 0.3]) {
    const at = await viewer.place(x, y);
    await viewer.page.mouse.move(at.x, at.y);
    await inPage(viewer.page, 60);
    if ((await viewer.page.locator('.tooltip').count()) > 0) words.push(await viewer.page.innerText('.tooltip'));
  }
  return words;
}
