/** The Share button and the link beside it, in a real browser. */

import {readFileSync} from 'node:fs';
import {join} from 'node:path';
import {pathToFileURL} from 'node:url';
import {describe, expect, it} from 'vitest';
import {recording, run, scratch, serving, Viewer} from './browser';

const served = serving(recording('linear_forward'), recording('oom_gpt2_8gib'));

describe('what is shared', () => {
  it('is one file that opens at the very place, without the server and the network', async () => {
    const place = 'x=300..700&y=1000000..6000000000&range=400..450&at=420&q=pytorch_utils&colour=size';
    const viewer = await Viewer.open(served.browser, `${served.server.address}#file=1&${place}`);
    // Wide enough that both headers are one line.
    const size = {width: 1900, height: 720};
    await viewer.page.setViewportSize(size);
    await viewer.page.waitForSelector('.hits');
    await viewer.settled();
    const [download] = await Promise.all([
      viewer.page.waitForEvent('download'),
      viewer.page.getByRole('link', {name: 'Share'}).click(),
    ]);
    expect(download.suggestedFilename()).toBe('oom_gpt2_8gib.html');
    const file = join(scratch(), 'shared.html');
    await download.saveAs(file);
    expect(viewer.errors).toEqual([]);

    const context = await served.browser.newContext({offline: true});
    const page = await Viewer.open(context, pathToFileURL(file).href);
    await page.page.setViewportSize(size);
    await page.page.waitForSelector('.hits');
    await page.settled();
    expect(await page.picture()).toBe(await viewer.picture());
    await page.page.waitForFunction(() => location.hash !== '');
    const words = (hash: string) => [...new URLSearchParams(hash.replace(/^#/, ''))].sort();
    expect(words(await page.page.evaluate(() => location.hash))).toEqual(words(place));
    // The file itself is what one sends on.
    expect(await page.page.getByRole('link', {name: 'Share'}).count()).toBe(0);
    expect(page.errors).toEqual([]);
    await context.close();
    await viewer.page.close();
  });

  it('is an address that says how long it lives', async () => {
    const context = await served.browser.newContext({permissions: ['clipboard-read', 'clipboard-write']});
    const viewer = await Viewer.open(context, `${served.server.address}#at=7`);
    await viewer.page.getByRole('button', {name: 'Copy link'}).click();
    await viewer.page.waitForFunction(() =>
      document.querySelector('.notice')?.textContent?.includes('until `highwater view` ends'),
    );
    expect(await viewer.page.evaluate(() => navigator.clipboard.readText())).toBe(`${served.server.address}#at=7`);
    await context.close();
  });

  it('says so where a notebook does not let its program run', async () => {
    const file = join(scratch(), 'page.html');
    run('export', '--to', 'html', recording('linear_forward'), '-o', file);
    const inside = readFileSync(file, 'utf8').replaceAll('&', '&amp;').replaceAll('"', '&quot;');
    // The policy that VS Code has for the outputs of notebooks, where it is turned on: inline programs, and no others.
    const policy = `default-src 'none'; script-src https: 'unsafe-inline'; style-src 'unsafe-inline'; child-src https: data:`;
    const page = await served.browser.newPage();
    await page.setContent(
      `<meta http-equiv="Content-Security-Policy" content="${policy}"><iframe sandbox="allow-scripts" srcdoc="${inside}">`,
    );
    await page.frameLocator('iframe').getByText('The program of this page is blocked here').waitFor();
    await page.close();
  });
});
