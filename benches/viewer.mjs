#!/usr/bin/env node
// Measures the viewer in headless Chromium without a GPU, and writes its part of docs/benchmarks.md.
//
//     node benches/viewer.mjs [--large] [--dry]
//
// For each file: seconds from the start of `highwater view` to the first exact picture (so reading is in it), from
// opening the page to it once the file is read, from pressing the key to the picture of the state; frames a second
// and the 95th percentile of a frame while zooming, panning, pointing and scrubbing; the memory of the page's
// process, and what an empty page's has. --large adds files of five and ten million entries. --dry prints only.
//
// No debugger is attached: with playwright's, the browser parses every traced function once more. The browser has run for some seconds
// before, as a person's has: Chromium 156 first loads pages of its own on both cores, which delayed the first picture by 0.3 s.

import {execFileSync, spawn} from 'node:child_process';
import {existsSync, mkdirSync, readFileSync, renameSync, statSync, writeFileSync} from 'node:fs';
import {cpus, loadavg} from 'node:os';
import {dirname, join} from 'node:path';
import {fileURLToPath, pathToFileURL} from 'node:url';
import {QuietPage} from './quiet_page.mjs';

const ROOT = join(dirname(fileURLToPath(import.meta.url)), '..');
const CACHE = join(ROOT, 'target/bench');
const BINARY = join(ROOT, 'target/release/highwater');
const PAGE = join(ROOT, 'docs/benchmarks.md');
const BEGIN = '<!-- made by benches/viewer.mjs: begin -->';
const END = '<!-- made by benches/viewer.mjs: end -->';
const CHROMIUM =
  process.env.CHROMIUM ??
  ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'].find(path => existsSync(path));

const TRAINING = ['--seq-jitter', '0.5', '--seed', '1'];
const FILES = [
  {name: '100,000, hostile lifetimes', file: 'random-100000', entries: 100_000, made: ['--workload', 'random', '--live', '5000']},
  {name: '1,000,000', file: '1000000', entries: 1_000_000, made: TRAINING},
  ...(process.argv.includes('--large')
    ? [
        {name: '5,000,000', file: '5000000', entries: 5_000_000, made: TRAINING},
        {name: '10,000,000', file: '10000000', entries: 10_000_000, made: TRAINING},
      ]
    : []),
];
/** First picture and state view, in seconds. */
const BUDGETS = {'100,000, hostile lifetimes': [0.5], '1,000,000': [1, 1], '5,000,000': [2.5], '10,000,000': [5]};

/** The time in which a browser loads its own pages. */
const SETTLED_MS = 3000;

/** Rounds of what starts anew each time. */
const ROUNDS = 3;
const GESTURE_MS = 3000;
const VIEWPORT = {width: 1600, height: 900};

function snapshot({file, entries, made}) {
  const path = join(CACHE, `${file}.pickle`);
  if (!existsSync(path)) {
    console.error(`making ${file}.pickle ...`);
    mkdirSync(CACHE, {recursive: true});
    const python = process.env.PYTHON ?? 'python3';
    const generator = join(ROOT, 'benches/gen_snapshot.py');
    execFileSync(python, [generator, `${path}.part`, '--entries', String(entries), ...made], {stdio: 'ignore'});
    renameSync(`${path}.part`, path);
  }
  return path;
}

function median(values) {
  return [...values].sort((a, b) => a - b)[values.length >> 1];
}

/** Starts the program; gives its address and what ends it. */
async function serve(path) {
  const began = Date.now();
  const child = spawn(BINARY, ['view', '--no-open', path], {stdio: ['ignore', 'pipe', 'ignore']});
  let said = '';
  for await (const text of child.stdout) {
    said += text;
    const address = /http:\/\/\S+/.exec(said)?.[0];
    if (address) return {address, began, stop: () => new Promise(done => child.once('exit', done).kill('SIGINT'))};
  }
  throw new Error(`highwater view ended: ${said}`);
}

/** Opens the page; gives when its first exact picture was there, in milliseconds since the epoch: the page itself notes it. */
async function firstPicture(page, address) {
  await page.goto(address);
  return page.value(() => globalThis.whenExact['.plot']);
}

/** Looks in every frame for the first exact picture, and that of the state. */
function watch() {
  globalThis.whenExact = {};
  const look = () => {
    for (const plot of ['.plot', '.state .plot'])
      if (document.querySelector(`${plot}[data-picture=exact]`)) globalThis.whenExact[plot] ??= Date.now();
    requestAnimationFrame(look);
  };
  requestAnimationFrame(look);
}

/** Frames while something is done over and over. */
async function frames(page, step) {
  await page.evaluate(() => {
    globalThis.ticks = [];
    const tick = () => {
      globalThis.ticks.push(performance.now());
      globalThis.ticking = requestAnimationFrame(tick);
    };
    globalThis.ticking = requestAnimationFrame(tick);
  });
  const end = Date.now() + GESTURE_MS;
  for (let n = 0; Date.now() < end; n++) await step(n);
  const ticks = await page.evaluate(() => {
    cancelAnimationFrame(globalThis.ticking);
    return globalThis.ticks;
  });
  const gaps = ticks.slice(1).map((tick, i) => tick - ticks[i]).sort((a, b) => a - b);
  const fps = (1000 * gaps.length) / (ticks.at(-1) - ticks[0]);
  return {fps, p95: gaps[Math.floor(gaps.length * 0.95)]};
}

async function withPage(work) {
  const page = await QuietPage.open(CHROMIUM, VIEWPORT);
  try {
    await page.before(watch);
    await new Promise(go => setTimeout(go, SETTLED_MS));
    return await work(page);
  } finally {
    await page.close();
  }
}

async function measure(of) {
  const path = snapshot(of);
  const result = {fromStart: [], fromOpening: [], state: []};
  for (let round = 0; round < ROUNDS; round++) {
    await withPage(async page => {
      const server = await serve(path);
      result.fromStart.push(((await firstPicture(page, server.address)) - server.began) / 1000);
      await page.goto('about:blank');
      const began = Date.now();
      result.fromOpening.push(((await firstPicture(page, server.address)) - began) / 1000);
      const pressed = Date.now();
      await page.press('2');
      result.state.push(((await page.value(() => globalThis.whenExact['.state .plot'])) - pressed) / 1000);
      await server.stop();
    });
  }
  const server = await serve(path);
  const page = await QuietPage.open(CHROMIUM, VIEWPORT);
  await page.goto(server.address);
  await page.waitFor('[data-picture=exact]');
  result.memory = await page.memory();
  const box = await page.box('.plot canvas');
  const [x, y] = [box.x + box.width * 0.6, box.y + box.height * 0.6];
  await page.move(x, y);
  result.zoom = await frames(page, n => page.wheel(n % 40 < 20 ? -60 : 60));
  await page.wheel(-1500);
  await page.down();
  result.pan = await frames(page, n => page.move(x + 200 * Math.sin(n / 15), y));
  await page.up();
  result.hover = await frames(page, n => page.move(x + 300 * Math.sin(n / 7), y + 120 * Math.cos(n / 5)));
  await page.press('2');
  await page.waitFor('.state .plot[data-picture=exact]');
  const strip = await page.box('.scrubber');
  await page.move(strip.x + 10, strip.y + 20);
  await page.down();
  result.scrub = await frames(page, n => page.move(strip.x + strip.width * (0.5 - 0.45 * Math.cos(n / 40)), strip.y + 20));
  await page.up();
  result.memoryAfter = await page.memory();
  await page.close();
  await server.stop();

  const single = join(CACHE, `${of.file}.html`);
  execFileSync(BINARY, ['export', '--to', 'html', path, '-o', single, '--force'], {stdio: 'ignore'});
  result.singleBytes = statSync(single).size;
  result.single = [];
  for (let round = 0; round < ROUNDS; round++) {
    await withPage(async page => {
      const began = Date.now();
      result.single.push(((await firstPicture(page, pathToFileURL(single).href)) - began) / 1000);
    });
  }
  return result;
}

const secs = values => `${Math.min(...values).toFixed(2)} / ${median(values).toFixed(2)} s`;
const rate = ({fps, p95}) => `${fps.toFixed(0)} (${p95.toFixed(0)} ms)`;
const mib = bytes => `${Math.round(bytes / 2 ** 20)} MiB`;

const before = loadavg()[0];
const emptyPage = await QuietPage.open(CHROMIUM, VIEWPORT);
const empty = await emptyPage.memory();
await emptyPage.close();
const rows = [];
for (const of of FILES) {
  console.error(`measuring ${of.name} ...`);
  rows.push({of, ...(await measure(of))});
}
const commit = execFileSync('git', ['-C', ROOT, 'rev-parse', '--short', 'HEAD'], {encoding: 'utf8'}).trim();
const version = execFileSync(CHROMIUM, ['--version'], {encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore']}).trim();
const verdicts = rows.flatMap(({of, fromStart, state}) => {
  const [first, second] = BUDGETS[of.name] ?? [];
  const line = (what, budget, values) =>
    `| ${what}, ${of.name} entries | under ${budget} s | ${median(values).toFixed(2)} s | ${median(values) < budget ? 'yes' : '**no**'} |`;
  return [
    ...(first ? [line('start of the program to the first picture', first, fromStart)] : []),
    ...(second ? [line('state view', second, state)] : []),
  ];
});
const text = [
  `${cpus().length}-core virtual machine, ${cpus()[0].model.trim()}, no GPU; load average before: ${before.toFixed(1)}. Commit ${commit}. ` +
    `${version.replace(/ built.*/, '')}, 1600 × 900. Times: min / median of ${ROUNDS}.`,
  '',
  '| measure | budget | measured (median) | met |',
  '| --- | ---: | ---: | ---: |',
  ...verdicts,
  '',
  '| entries | from the start of `highwater view` | from opening the page | state view | single file | opened in |',
  '| --- | ---: | ---: | ---: | ---: | ---: |',
  ...rows.map(
    row =>
      `| ${row.of.name} | ${secs(row.fromStart)} | ${secs(row.fromOpening)} | ${secs(row.state)} | ` +
      `${(row.singleBytes / 2 ** 20).toFixed(2)} MiB | ${secs(row.single)} |`,
  ),
  '',
  'Frames a second, and the 95th percentile of a frame:',
  '',
  '| entries | zoom | pan | point | scrub the state |',
  '| --- | ---: | ---: | ---: | ---: |',
  ...rows.map(row => `| ${row.of.name} | ${rate(row.zoom)} | ${rate(row.pan)} | ${rate(row.hover)} | ${rate(row.scrub)} |`),
  '',
  `Resident memory of the page's process (an empty page's: ${mib(empty.peak)} at most):`,
  '',
  '| entries | first picture, now / at most | after all gestures, now / at most |',
  '| --- | ---: | ---: |',
  ...rows.map(
    ({of, memory, memoryAfter}) =>
      `| ${of.name} | ${mib(memory.now)} / ${mib(memory.peak)} | ${mib(memoryAfter.now)} / ${mib(memoryAfter.peak)} |`,
  ),
].join('\n');
console.log(text);
if (!process.argv.includes('--dry')) {
  const page = readFileSync(PAGE, 'utf8');
  const [head, tail] = [page.indexOf(BEGIN), page.indexOf(END)];
  if (head < 0 || tail < 0) throw new Error(`${PAGE} lacks the marks ${BEGIN}`);
  writeFileSync(PAGE, `${page.slice(0, head + BEGIN.length)}\n\n${text}\n\n${page.slice(tail)}`);
}
