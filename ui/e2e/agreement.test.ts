/** The page's arithmetic is the program's: ten thousand random requests, answered natively and by the WebAssembly. */

import {spawn} from 'node:child_process';
import {existsSync} from 'node:fs';
import {readFile} from 'node:fs/promises';
import {join} from 'node:path';
import {createInterface} from 'node:readline';
import {gunzipSync} from 'node:zlib';
import {expect, it} from 'vitest';
import {EstimateModule} from '../src/calculator/module';
import {CALCULATOR, HIGHWATER} from './browser';

const COUNT = 10_000;
const SEED = 7;

/** FNV-1a, as `crates/estimate-web/examples/requests.rs` has it. */
function digest(text: string): string {
  let hash = 0x811c9dc5;
  for (const byte of new TextEncoder().encode(text)) hash = Math.imul(hash ^ byte, 0x01000193);
  return (hash >>> 0).toString(16).padStart(8, '0');
}

it.skipIf(!existsSync(CALCULATOR))('gives the same documents, byte for byte', {timeout: 300_000}, async () => {
  const page = await readFile(CALCULATOR, 'utf8');
  const [, packed] = /id="module">([^<]+)</.exec(page)!;
  const module = new EstimateModule(new WebAssembly.Module(gunzipSync(Buffer.from(packed, 'base64'))));
  const requests = join(HIGHWATER, '../examples/requests');
  const native = spawn(requests, [String(COUNT), String(SEED)], {stdio: ['ignore', 'pipe', 'inherit']});
  let [answers, documents] = [0, 0];
  for await (const line of createInterface(native.stdout)) {
    const [want, request] = [line.slice(0, 8), line.slice(9)];
    const answer = module.answer(request);
    if (digest(answer) !== want) expect.fail(`differs: ${request}`);
    answers++;
    if (answer.startsWith('{"format":"highwater-estimate"')) documents++;
  }
  expect(answers).toBe(COUNT);
  // The others are refused, which is compared as well.
  expect(documents).toBeGreaterThan(COUNT * 0.85);
});
