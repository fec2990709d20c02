/** The calculator in a real browser: its numbers are those of `highwater estimate`. */

import {existsSync, writeFileSync} from 'node:fs';
import {join} from 'node:path';
import {pathToFileURL} from 'node:url';
import type {Browser, BrowserContext, Page} from 'playwright-core';
import {afterAll, beforeAll, describe, expect, it} from 'vitest';
import {ADDRESS_MS, CALCULATOR, inPage, launch, recording, run, Server, scratch} from './browser';

let browser: Browser;
beforeAll(async () => {
  browser = await launch();
});
afterAll(() => browser.close());

/** A page, and everything that it said on the console or asked for. */
class Calculator {
  readonly page: Page;
  readonly said: string[] = [];
  readonly asked: string[] = [];

  private constructor(page: Page) {
    this.page = page;
    page.setDefaultTimeout(60_000);
    page.on('pageerror', error => this.said.push(String(error)));
    page.on('console', message => this.said.push(message.text()));
    page.on('request', request => this.asked.push(request.url()));
  }

  static async open(context: Browser | BrowserContext, address: string): Promise<Calculator> {
    const calculator = new Calculator(await context.newPage());
    await calculator.page.setViewportSize({width: 1280, height: 720});
    await calculator.page.goto(address);
    return calculator;
  }

  /** Waits until the answer is for the command that the page gives. Its total, in bytes. */
  async agreed(): Promise<number> {
    const total = this.page.locator('.verdict .headline b');
    await total.waitFor();
    const command = await this.page.getByRole('button', {name: 'Copy command'}).getAttribute('title');
    const want = JSON.parse(run(...command!.split(' ').slice(1), '--format', 'json')).total_bytes as number;
    await expect.poll(async () => exactBytes(await total.getAttribute('title'))).toBe(want);
    return want;
  }

  /** The address, which follows after a moment. */
  async address(): Promise<string> {
    await inPage(this.page, ADDRESS_MS);
    return this.page.evaluate(() => location.href);
  }
}

function exactBytes(text: string | null): number {
  return Number(/\(([\d,]+) bytes\)/.exec(text ?? '')?.[1].replaceAll(',', ''));
}

describe.skipIf(!existsSync(CALCULATOR))('the calculator', () => {
  it('answers as the command line does, and begins with what that was given', async () => {
    const server = await Server.of('estimate', 'qwen2.5-0.5b', '--batch', '4', '--seq', '256', '--web', '--no-open');
    const calculator = await Calculator.open(browser, server.address);
    const {page} = calculator;
    expect(await page.locator('#model').inputValue()).toBe('qwen2.5-0.5b');
    const first = await calculator.agreed();

    const slider = page.getByRole('slider', {name: 'batch'});
    const box = (await slider.boundingBox())!;
    await page.mouse.move(box.x + box.width * 0.2, box.y + box.height / 2);
    await page.mouse.down();
    await page.mouse.move(box.x + box.width * 0.5, box.y + box.height / 2, {steps: 20});
    await page.mouse.up();
    expect(Number(await page.locator('#batch-number').inputValue())).toBeGreaterThan(16);
    expect(await calculator.agreed()).toBeGreaterThan(first);

    await page.locator('#model').selectOption('gpt2');
    await page.getByRole('slider', {name: 'sequence'}).press('ArrowRight');
    await page.locator('#dtype').selectOption('bfloat16');
    await page.getByLabel('gradient checkpointing').check();
    await page.locator('#lora-rank-number').fill('8');
    await page.locator('#sharding').selectOption({label: 'FSDP 2'});
    await page.locator('#world-size-number').fill('4');
    await page.locator('.cards').getByRole('button', {name: 'A100-SXM4-40GB'}).click();
    const last = await calculator.agreed();

    const again = await Calculator.open(browser, await calculator.address());
    expect(await again.agreed()).toBe(last);
    await page.getByRole('button', {name: 'generate'}).click();
    await page.locator('#cache').selectOption('static');
    await calculator.agreed();
    expect([...calculator.said, ...again.said]).toEqual([]);
    expect(calculator.asked.filter(url => !url.startsWith('blob:'))).toEqual([server.address]);
    await again.page.close();
    await page.close();
    expect(await server.stop()).toBe(0);
  });

  it('is one file that needs no network', async () => {
    const folder = scratch();
    const file = join(folder, 'page.html');
    run('estimate', 'gpt2', '--batch', '8', '--web', '-o', file);
    const context = await browser.newContext({offline: true});
    const address = pathToFileURL(file).href;
    const calculator = await Calculator.open(context, address);
    const {page} = calculator;
    await calculator.agreed();
    await page.waitForSelector('.changes');

    await page.locator('#batch-number').fill('0');
    const problem = page.locator('.results [role=alert]');
    await problem.waitFor();
    expect(await problem.innerText()).toContain('--batch 0 is not between 1 and 4,294,967,296');
    await page.locator('#batch-number').fill('4294967296');
    await page.locator('#seq-number').fill('4294967296');
    await page.waitForFunction(() => document.querySelector('[role=alert]')?.textContent?.includes('exbibyte'));

    // Nothing in the page is wider than the window.
    await page.locator('#batch-number').fill('2');
    await page.locator('#seq-number').fill('128');
    await calculator.agreed();
    for (const width of [360, 768, 1600]) {
      await page.setViewportSize({width, height: 800});
      expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBe(width);
    }
    const nameless = await page.evaluate(() => {
      const fields = [...document.querySelectorAll<HTMLInputElement>('.inputs input:not([hidden]), .inputs select')];
      return fields.filter(field => !field.labels?.length && !field.ariaLabel).map(field => field.outerHTML);
    });
    expect(nameless).toEqual([]);
    expect(calculator.said).toEqual([]);
    expect(calculator.asked.filter(url => !url.startsWith('blob:'))).toEqual([address]);
    await context.close();
  });

  it('reads files, and shares what they say', async () => {
    const folder = scratch();
    const context = await browser.newContext({offline: true});
    const config = join(folder, 'config.json');
    const small = {
      model_type: 'llama',
      hidden_size: 256,
      num_attention_heads: 4,
      num_hidden_layers: 2,
      vocab_size: 999,
    };
    writeFileSync(config, JSON.stringify(small));
    const calculator = await Calculator.open(context, `${pathToFileURL(CALCULATOR).href}#theme=dark&batch=2`);
    const {page} = calculator;
    const total = async () => exactBytes(await page.locator('.verdict .headline b').getAttribute('title'));
    const want = JSON.parse(run('estimate', config, '--batch', '2', '--format', 'json')).total_bytes;
    await page.locator('input[type=file]').setInputFiles(config);
    await expect.poll(total).toBe(want);

    const again = await Calculator.open(context, await calculator.address());
    const headline = again.page.locator('.verdict .headline b');
    await headline.waitFor();
    expect(exactBytes(await headline.getAttribute('title'))).toBe(want);

    const long = join(folder, 'long.json');
    writeFileSync(long, JSON.stringify({...small, notes: 'x'.repeat(10_000)}));
    await page.locator('input[type=file]').setInputFiles(long);
    await expect.poll(async () => page.locator('#model').innerText()).toContain('long.json');
    const lost = await Calculator.open(context, await calculator.address());
    expect(await lost.page.locator('.results [role=alert]').innerText()).toContain('long.json');

    const bad = join(folder, 'bad.safetensors');
    writeFileSync(bad, Buffer.concat([Buffer.from([0, 0, 0, 0, 0, 0, 0, 16]), Buffer.from('{}')]));
    await page.locator('input[type=file]').setInputFiles(bad);
    const problem = page.locator('.results [role=alert]');
    await problem.waitFor();
    expect(await problem.innerText()).toContain('is not a readable safetensors file');
    expect(await problem.innerText()).toContain('1152921504606846976');
    expect([...calculator.said, ...again.said, ...lost.said]).toEqual([]);
    await context.close();
  });

  it('answers for an engine that serves', async () => {
    const context = await browser.newContext({offline: true});
    const calculator = await Calculator.open(context, `${pathToFileURL(CALCULATOR).href}#model=llama3.1-8b&gpu=h100`);
    const {page} = calculator;
    await page.getByRole('button', {name: 'Serving', exact: true}).click();
    await page.locator('#release-number').fill('0.11.0');
    await page.locator('#max-model-len-number').fill('16000');
    const cache = page.locator('.verdict .headline b');
    const agreed = async () => {
      const command = await page.getByRole('button', {name: 'Copy command'}).getAttribute('title');
      expect(command).toContain('--serve vllm@0.11.0 --gpu h100');
      const want = JSON.parse(run(...command!.split(' ').slice(1), '--format', 'json')).kv_cache_bytes as number;
      await expect.poll(async () => exactBytes(await cache.getAttribute('title'))).toBe(want);
    };
    await agreed();
    expect(await page.locator('.verdict').innerText()).toContain('llama3.1-8b in vLLM 0.11.0 on 1 × H100 80GB HBM3');
    expect(await page.locator('#gpu option:checked').innerText()).toMatch(/^H100 80GB HBM3 · /);
    await page.locator('#max-num-seqs-number').fill('256');
    await page.getByLabel('no CUDA graphs').check();
    await agreed();
    const caption = page.locator('.curve figcaption');
    const chosen = await caption.innerText();
    const plot = (await page.locator('.curve svg').boundingBox())!;
    await page.mouse.move(plot.x + plot.width * 0.2, plot.y + plot.height / 2);
    expect(await caption.innerText()).not.toBe(chosen);
    for (const width of [360, 768, 1600]) {
      await page.setViewportSize({width, height: 800});
      expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBe(width);
    }

    const again = await Calculator.open(context, await calculator.address());
    await again.page.locator('.curve').waitFor();
    expect(await again.page.locator('#max-num-seqs-number').inputValue()).toBe('256');

    await page.locator('#tensor-parallel-size-number').fill('3');
    await expect.poll(async () => page.locator('.verdict').innerText()).toContain('cannot be divided among 3 ranks');
    await page.locator('#engine').selectOption('llama.cpp');
    await expect.poll(async () => page.locator('.verdict').innerText()).toContain('llama.cpp');
    expect([...calculator.said, ...again.said]).toEqual([]);
    await context.close();
  });

  it('stands behind a link of the viewer', async () => {
    const server = await Server.start(recording('linear_forward'));
    const page = await browser.newPage();
    await page.goto(server.address);
    const [opened] = await Promise.all([
      page.waitForEvent('popup'),
      page.getByRole('link', {name: 'Calculator'}).click(),
    ]);
    await opened.waitForSelector('.verdict .headline b');
    await page.close();
    await opened.close();
    await server.stop();
  });
});
