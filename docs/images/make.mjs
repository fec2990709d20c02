// Makes the pictures of the README, the gallery and the viewer's page: `node docs/images/make.mjs [NAME…]`, after `make build`.
//
// Each is a screenshot of the viewer on a recording in `testdata/`, so all of them can be made again when the page changes. The
// binary is `target/release/highwater`, or that of `HIGHWATER`; Chromium is found as in `ui/e2e/browser.ts`.

import {spawn} from 'node:child_process';
import {existsSync, statSync} from 'node:fs';
import {createRequire} from 'node:module';
import {join, resolve} from 'node:path';

const ROOT = resolve(import.meta.dirname, '../..');
const HIGHWATER = process.env.HIGHWATER ?? join(ROOT, 'target/release/highwater');
const CHROMIUM = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'];
const {chromium} = createRequire(join(ROOT, 'ui/package.json'))('playwright-core');

/** A page that scrolls slowly is no page that people wait for. */
const LARGEST_BYTES = 200_000;

const recording = name => join(ROOT, 'testdata/recordings', `${name}.pickle.gz`);
const batch = rows => join(ROOT, 'testdata/batches', `resnet18_b${rows}.pickle.gz`);
const view = (files, hash) => ({command: ['view', '--no-open', ...files], hash});
const viewer = (name, hash) => view([recording(name)], hash);

const PICTURES = {
  timeline: viewer('annotated', 'colour=category'),
  'out-of-memory': viewer('oom_gpt2_8gib', 'colour=category'),
  state: viewer('oom_gpt2_8gib', 'view=state&at=590&colour=category'),
  segments: viewer('fuzz_gc08split64', 'view=segments'),
  stacks: viewer('annotated', 'view=stacks'),
  summary: viewer('oom_gpt2_8gib', 'view=summary'),
  compare: view([batch(32), batch(96)], 'view=compare'),
  ranks: view([batch(8), batch(32), batch(96)], 'view=ranks'),
  'heat-map': view([batch(8), batch(32), batch(96)], 'view=ranks&ranks.form=heat+map'),
  'what-if': viewer('fuzz_gc08split64', 'view=what-if'),
  calculator: {command: ['estimate', 'llama3.1-8b', '--batch', '4', '--web', '--no-open'], hash: ''},
  serving: {command: ['estimate', 'llama3.1-8b', '--serve', 'vllm', '--gpu', 'l40s', '--web', '--no-open'], hash: ''},
};

/** Starts a command that serves, and gives its address. */
async function served(command) {
  const child = spawn(HIGHWATER, command, {stdio: ['ignore', 'pipe', 'inherit']});
  let said = '';
  for await (const text of child.stdout) {
    said += text;
    const address = /http:\/\/\S+/.exec(said)?.[0];
    if (address) return {address, child};
  }
  throw new Error(`\`highwater ${command.join(' ')}\` ended without an address`);
}

/** Waits until the page has nothing more to draw: two screenshots a second apart are equal. */
async function settled(page) {
  let last = await page.screenshot();
  for (let tries = 0; tries < 60; tries++) {
    await page.waitForTimeout(1000);
    const now = await page.screenshot();
    if (now.equals(last)) return;
    last = now;
  }
  throw new Error('the page is still drawing after a minute');
}

const wanted = process.argv.slice(2);
const tooLarge = [];
const executablePath = process.env.CHROMIUM ?? CHROMIUM.find(path => existsSync(path));
const browser = await chromium.launch({executablePath, args: ['--no-sandbox', '--disable-gpu']});
for (const [name, {command, hash}] of Object.entries(PICTURES)) {
  if (wanted.length > 0 && !wanted.includes(name)) continue;
  const {address, child} = await served(command);
  try {
    const page = await browser.newPage({viewport: {width: 1120, height: 600}, colorScheme: 'light', reducedMotion: 'reduce'});
    // The calculator's address has a place of its own after `#`.
    await page.goto(hash ? `${address}#${hash}` : address);
    await settled(page);
    const path = join(ROOT, 'docs/images', `${name}.png`);
    await page.screenshot({path});
    await page.close();
    const bytes = statSync(path).size;
    console.log(`${name}.png: ${bytes} bytes`);
    if (bytes > LARGEST_BYTES) tooLarge.push(name);
  } finally {
    child.kill('SIGINT');
  }
}
await browser.close();
if (tooLarge.length > 0) throw new Error(`larger than ${LARGEST_BYTES} bytes: ${tooLarge.join(', ')}; choose another place`);
