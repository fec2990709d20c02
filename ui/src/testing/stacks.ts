/** Made-up stacks for tests. */

import {OWNERS, Stacks} from '../model/stacks';
import {random} from './lifetimes';

/** A stack by its frames, outermost first. */
export type Path = number[];

/** Stacks of some paths over frames `f0`, `f1`, …, each with an owner; a path without frames has the first label. */
export function stacksOf(paths: Path[], owners: number[]): Stacks {
  const parent: number[] = [];
  const frame: number[] = [];
  const known = new Map<string, number>();
  const leafOf = (path: Path) =>
    path.reduce((above, one) => {
      const name = `${above}/${one}`;
      let node = known.get(name);
      if (node === undefined) {
        node = parent.length;
        parent.push(above < 0 ? node : above);
        frame.push(one);
        known.set(name, node);
      }
      return node;
    }, -1);
  const leaves = paths.map(leafOf);
  const user = OWNERS.indexOf('user');
  const site = paths.map(path =>
    path.length === 0 ? owners.length : (path.findLast(one => owners[one] === user) ?? path[path.length - 1]),
  );
  const strings = owners.map((_, i) => `f${i}`);
  const rows = owners.map((_, i) => i);
  return new Stacks(
    {
      strings: [...strings, 'file.py'],
      name: rows,
      file: rows.map(() => strings.length),
      line: rows,
      owner: owners,
      labels: ['(none)'],
    },
    Uint32Array.from(parent),
    Uint32Array.from(frame),
    Uint32Array.from(leaves, leaf => (leaf < 0 ? parent.length : leaf)),
    Uint32Array.from(site),
  );
}

/** Paths with a common trunk and recursion, as programs have. */
export function madeUpPaths(seed: number, count: number, frames: number): Path[] {
  const next = random(seed);
  const trunk = Array.from({length: 6}, () => Math.floor(next() * frames));
  return Array.from({length: count}, () => {
    const shared = trunk.slice(0, Math.floor(next() * 7));
    const own = Array.from({length: Math.floor(next() * 5)}, () => Math.floor(next() * frames));
    return [...shared, ...own];
  });
}
