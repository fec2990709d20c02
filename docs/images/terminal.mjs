// Makes the README's animation of a terminal from a real run: `node docs/images/terminal.mjs`, after `make build`.
//
// It is an SVG without scripts: style sheets show line after line, once. Where less motion is preferred, all lines are there at once.
// A test of `crates/cli/tests/it/docs.rs` compares its words with those of the program. The binary is `target/release/highwater`, or
// that of `HIGHWATER`.

import {execFileSync} from 'node:child_process';
import {writeFileSync} from 'node:fs';
import {join, resolve} from 'node:path';

const ROOT = resolve(import.meta.dirname, '../..');
const HIGHWATER = process.env.HIGHWATER ?? join(ROOT, 'target/release/highwater');
const FILE = 'oom_gpt2_8gib.pickle.gz';
/** Cells of a line. */
const COLUMNS = 92;

/** Sizes in pixels, times in seconds. */
const [CELL, LINE, MARGIN] = [7.8, 18, 16];
const [TYPED_S, WAIT_S, LINE_S] = [1.4, 0.5, 0.08];

/** What a heading begins is shown, what is between is left out. */
const SHOWN = [
  {from: 0, until: 'Requested at'},
  {from: 'Live memory by category', until: 'Live memory by call site'},
  {from: 'What to change', until: '  2. '},
];

/** Colours of a dark terminal, by the numbers of its styles. */
const COLOURS = {31: '#ff7b72', 32: '#56d364', 33: '#e3b341', 36: '#76e3ea'};

const escaped = text => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');

/** The colour of the terminal's palette of 256, in its cube of six steps a side. */
function ofCube(number) {
  const steps = [0, 95, 135, 175, 215, 255];
  const cube = number - 16;
  return `rgb(${[Math.floor(cube / 36), Math.floor(cube / 6) % 6, cube % 6].map(step => steps[step]).join(' ')})`;
}

/** A line with the escapes of its styles as spans. */
function spans(line) {
  let [style, text] = [{}, ''];
  for (const [, codes, run] of `\x1b[0m${line}`.matchAll(/\x1b\[([\d;]*)m([^\x1b]*)/g)) {
    const numbers = codes.split(';').map(Number);
    for (const [i, number] of numbers.entries()) {
      if (number === 0) style = {};
      else if (number === 1) style = {...style, 'font-weight': 'bold'};
      else if (number === 2) style = {...style, opacity: '.65'};
      else if (number === 38) {
        style = {...style, fill: ofCube(numbers[i + 2])};
        break;
      } else if (COLOURS[number]) style = {...style, fill: COLOURS[number]};
    }
    if (run === '') continue;
    const attributes = Object.entries(style).map(([name, value]) => ` ${name}="${value}"`);
    text += attributes.length ? `<tspan${attributes.join('')}>${escaped(run)}</tspan>` : escaped(run);
  }
  return text;
}

const output = execFileSync(HIGHWATER, ['explain', FILE], {
  cwd: join(ROOT, 'testdata/recordings'),
  encoding: 'utf8',
  env: {...process.env, CLICOLOR_FORCE: '1', COLUMNS: String(COLUMNS)},
}).split('\n');
const plain = output.map(line => line.replaceAll(/\x1b\[[\d;]*m/g, ''));
const place = (words, after) => {
  const at = typeof words === 'number' ? words : plain.findIndex((line, i) => i >= after && line.startsWith(words));
  if (at < 0) throw new Error(`no line begins with \`${words}\``);
  return at;
};
const lines = [];
for (const {from, until} of SHOWN) {
  const first = place(from, 0);
  const part = output.slice(first, place(until, first));
  while (part.at(-1) === '') part.pop();
  if (lines.length > 0) lines.push('');
  lines.push(...part);
}
lines.push('…');

const command = `highwater explain ${FILE}`;
const width = Math.ceil(COLUMNS * CELL + 2 * MARGIN);
const height = (lines.length + 2) * LINE + 2 * MARGIN;
const y = line => MARGIN + LINE * (line + 1) - 5;
const shown = lines.flatMap((line, i) =>
  line === '' ? [] : [`<text x="${MARGIN}" y="${y(i + 2)}" style="animation-delay:${(TYPED_S + WAIT_S + i * LINE_S).toFixed(2)}s">${spans(line)}</text>`],
);
const svg = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img" aria-labelledby="title">
<title id="title">${escaped(command)}: the cause, where the memory went, and what to change</title>
<style>
text{font:13px ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace;fill:#e6edf3;white-space:pre}
@media (prefers-reduced-motion:no-preference){
text{opacity:0;animation:show .01s forwards}
.typed{opacity:1;animation:none;clip-path:inset(0 100% 0 0);animation:type ${TYPED_S}s steps(${command.length + 2}) forwards}
}
@keyframes show{to{opacity:1}}
@keyframes type{to{clip-path:inset(0)}}
</style>
<rect width="100%" height="100%" rx="8" fill="#0d1117"/>
<text class="typed" x="${MARGIN}" y="${y(0)}"><tspan fill="#56d364">$ </tspan>${command}</text>
${shown.join('\n')}
</svg>
`;
writeFileSync(join(import.meta.dirname, 'terminal.svg'), svg);
console.log(`terminal.svg: ${lines.length} lines, ${svg.length} bytes`);
