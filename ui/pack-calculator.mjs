/**
 * Puts the calculator into one file that loads nothing: `node pack-calculator.mjs MODULE.wasm`, after its two bundles are built.
 * The program that opens with the page is named by its hash, so nothing else can run.
 */

import {createHash} from 'node:crypto';
import {readFileSync, writeFileSync} from 'node:fs';
import {gzipSync} from 'node:zlib';

const [wasm] = process.argv.slice(2);
const read = file => readFileSync(new URL(file, import.meta.url), 'utf8');
const packed = bytes => gzipSync(bytes, {level: 9}).toString('base64');

// Nothing in a program may close the element that it stands in.
const app = read('dist/calculator/calculator.js').replaceAll('</script', '<\\/script').replaceAll('<!--', '<\\!--');
const hash = createHash('sha256').update(app).digest('base64');
const policy =
  `default-src 'none'; script-src 'sha256-${hash}' 'wasm-unsafe-eval' blob:; worker-src blob:; ` +
  "style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'";

writeFileSync(
  new URL('dist/calculator.html', import.meta.url),
  `<!doctype html>
<html lang="en">
<head>
<meta http-equiv="Content-Security-Policy" content="${policy}">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>highwater: what a model needs</title>
<link rel="icon" href="data:,">
<style>${read('public/app.css')}${read('src/calculator/calculator.css')}</style>
</head>
<body>
<div id="app"></div>
<noscript>The calculator needs JavaScript; <code>highwater estimate</code> answers the same without it.</noscript>
<script type="application/x-highwater" id="inputs"></script>
<script type="application/x-highwater" id="module">${packed(readFileSync(wasm))}</script>
<script type="application/x-highwater" id="worker">${packed(read('dist/calculator/calculator-worker.js'))}</script>
<script>${app}</script>
</body>
</html>
`,
);
