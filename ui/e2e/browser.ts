/** A real Chromium, the program that serves the page, and what a person does with both. */

import {type ChildProcess, execFileSync, spawn} from 'node:child_process';
import {existsSync, mkdtempSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join, resolve} from 'node:path';
import {type Browser, type BrowserContext, chromium, type Page} from 'playwright-core';
import {afterAll, beforeAll} from 'vitest';

/** The repository. */
export const ROOT = resolve(import.meta.dirname, '../..');

/** The binary that is tested: of the debug build, which the other tests need as well. */
export const HIGHWATER = process.env.HIGHWATER ?? join(ROOT, 'target/debug/highwater');

/** The calculator, which is missing where Rust cannot make WebAssembly: `make ui` says so. */
export const CALCULATOR = join(ROOT, 'ui/dist/calculator.html');

// The headless shell has no windows and no interface of its own: the tests take half the processor time.
const CHROMIUM = [
  '/usr/bin/chromium-headless-shell',
  '/usr/bin/chromium',
  '/usr/bin/chromium-browser',
  '/usr/bin/google-chrome',
];

/** A recording of the tests. */
export function recording(name: string): string {
  return join(ROOT, 'testdata/recordings', `${name}.pickle.gz`);
}

/** A folder that is this run's own. */
export function scratch(): string {
  return mkdtempSync(join(tmpdir(), 'highwater-'));
}

export function launch(): Promise<Browser> {
  const executablePath = process.env.CHROMIUM ?? CHROMIUM.find(path => existsSync(path));
  if (!executablePath)
    throw new Error(
      'no Chromium: install the package `chromium-headless-shell` or `chromium`, or name one in CHROMIUM',
    );
  // Without a sandbox, for CI runs as root; without a GPU, which these tests must not need.
  return chromium.launch({executablePath, args: ['--no-sandbox', '--disable-gpu']});
}

/** What the program prints on standard output. */
export function run(...args: string[]): string {
  return execFileSync(HIGHWATER, args, {encoding: 'utf8', maxBuffer: 1 << 28});
}

/** One block of `highwater live`. */
export interface LiveBlock {
  address: number;
  requested_bytes: number;
  size_bytes: number;
  state: string;
  category?: string;
}

/** What the program says is there after an entry. */
export function live(file: string, entry: number): LiveBlock[] {
  return JSON.parse(run('live', file, '--at', String(entry), '--format', 'json')).blocks;
}

/** A running `highwater view`, or another command that serves. */
export class Server {
  readonly address: string;
  private readonly child: ChildProcess;

  private constructor(child: ChildProcess, address: string) {
    this.child = child;
    this.address = address;
  }

  static start(...files: string[]): Promise<Server> {
    return Server.of('view', '--no-open', ...files);
  }

  static async of(...args: string[]): Promise<Server> {
    const child = spawn(HIGHWATER, args, {stdio: ['ignore', 'pipe', 'inherit']});
    let said = '';
    for await (const text of child.stdout!) {
      said += text;
      const address = /http:\/\/\S+/.exec(said)?.[0];
      if (address) return new Server(child, address);
    }
    throw new Error(`highwater ${args[0]} ended: ${said}`);
  }

  /** Ends it as Ctrl-C does; gives its exit status. */
  stop(): Promise<number | null> {
    return new Promise(done => {
      this.child.once('exit', code => done(code));
      this.child.kill('SIGINT');
    });
  }
}

/** A browser and a server of some files, for all tests of the file or the group that calls this. */
export function serving(...files: string[]): {readonly browser: Browser; readonly server: Server} {
  const served = {} as {browser: Browser; server: Server};
  beforeAll(async () => {
    served.browser = await launch();
    served.server = await Server.start(...files);
  });
  afterAll(async () => {
    await served.browser?.close();
    await served.server?.stop();
  });
  return served;
}

/** A page, and everything that went wrong in it. */
export class Viewer {
  readonly page: Page;
  readonly errors: string[] = [];

  private constructor(page: Page) {
    this.page = page;
    page.on('pageerror', error => this.errors.push(String(error)));
    page.on('console', message => {
      if (message.type() === 'error') this.errors.push(message.text());
    });
    page.on('dialog', dialog => {
      this.errors.push(`a dialog: ${dialog.message()}`);
      void dialog.dismiss();
    });
  }

  static async open(context: BrowserContext | Browser, address: string): Promise<Viewer> {
    const viewer = new Viewer(await context.newPage());
    viewer.page.setDefaultTimeout(60_000);
    await viewer.page.setViewportSize({width: 1280, height: 720});
    await viewer.page.goto(address);
    await viewer.settled();
    return viewer;
  }

  /** Waits until the picture is exactly what is asked for. */
  async settled(): Promise<void> {
    await inPage(this.page, 200);
    await this.page.waitForSelector('[data-picture=exact]');
  }

  /** The text after `#`, decoded, once it has followed the state. */
  async hash(): Promise<string> {
    await inPage(this.page, ADDRESS_MS);
    return decodeURIComponent(await this.page.evaluate(() => location.hash));
  }

  /** The picture of the plot, without the words over it. */
  picture(): Promise<string> {
    return this.page.evaluate(() => document.querySelector<HTMLCanvasElement>('.plot canvas')!.toDataURL());
  }

  /** The colours in the picture and how many pixels have each, most first. */
  colours(): Promise<[string, number][]> {
    return this.page.evaluate(() => {
      const canvas = document.querySelector<HTMLCanvasElement>('.plot canvas')!;
      const {data} = canvas.getContext('2d')!.getImageData(0, 0, canvas.width, canvas.height);
      const counts = new Map<string, number>();
      for (let i = 0; i < data.length; i += 4) {
        const colour = `${data[i]},${data[i + 1]},${data[i + 2]}`;
        counts.set(colour, (counts.get(colour) ?? 0) + 1);
      }
      return [...counts].sort((a, b) => b[1] - a[1]);
    });
  }

  /** The middle of a part of the plot: `x` and `y` from 0 to 1, from its upper left corner. */
  async place(x: number, y: number): Promise<{x: number; y: number}> {
    const box = await this.page.locator('.plot canvas').first().boundingBox();
    return {x: box!.x + box!.width * x, y: box!.y + box!.height * y};
  }

  /** The facts about the pinned allocation, by their names. */
  facts(): Promise<Record<string, string>> {
    return this.page.evaluate(() =>
      Object.fromEntries(
        [...document.querySelectorAll('.pinned .facts dt')].map(dt => [
          dt.textContent ?? '',
          dt.nextElementSibling?.textContent ?? '',
        ]),
      ),
    );
  }

  /** The exact bytes that are active at the cursor, from the panel beside the picture. */
  async activeBytes(): Promise<number> {
    const title = await this.page.locator('.moment .total b').getAttribute('title');
    return Number(title?.replace(/\D/g, ''));
  }
}

/** Longer than the address waits before it follows the state, in milliseconds. */
export const ADDRESS_MS = 600;

/**
 * Waits in the page itself, then until it has drawn twice: timers that the page set before, and which were to end sooner, have ended,
 * however busy the machine is.
 */
export function inPage(page: Page, ms: number): Promise<void> {
  return page.evaluate(
    ms => new Promise<void>(go => setTimeout(() => requestAnimationFrame(() => requestAnimationFrame(() => go())), ms)),
    ms,
  );
}

/** Whole bytes of `1.5 MiB (1,572,864 bytes)` or `512 B`. */
export function bytesOf(text: string): number {
  const exact = /\(([\d,]+) bytes\)/.exec(text)?.[1] ?? /^(\d+) B$/.exec(text)?.[1] ?? 'NaN';
  return Number(exact.replaceAll(',', ''));
}

/** Drops a file on the page, as from a file manager. */
export async function drop(viewer: Viewer, name: string, bytes: Buffer): Promise<void> {
  const transfer = await viewer.page.evaluateHandle(
    ([name, base64]) => {
      const data = Uint8Array.from(atob(base64), letter => letter.charCodeAt(0));
      const transfer = new DataTransfer();
      transfer.items.add(new File([data], name));
      return transfer;
    },
    [name, bytes.toString('base64')],
  );
  await viewer.page.dispatchEvent('.page', 'dragover', {dataTransfer: transfer});
  await viewer.page.dispatchEvent('.page', 'drop', {dataTransfer: transfer});
}
