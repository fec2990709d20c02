/** The stacks of two files as boxes: as wide as the larger of the two, coloured by what changed. */

import type {StackTree} from '../../data/curves';
import type {Shade} from '../../draw/palette';
import {type FlameLayout, layOut} from '../../model/flame-layout';

/** Boxes with their words and bytes. Keys are places in `text` and `bytes`; 0 is the root. */
export interface Difference {
  readonly layout: FlameLayout;
  readonly text: readonly string[];
  readonly bytes: readonly (readonly [number, number])[];
}

/**
 * Lays the tree out. What a frame holds itself counts as much as in the file where it is more, so that a box is as wide as
 * what lies on it, and nothing that went is left out.
 */
export function differenceOf({nodes, bytes}: StackTree): Difference {
  const length = nodes.length + 1;
  const own = [bytes, ...nodes.map(node => node.bytes)].map(([a, b]) => [a, b]);
  const parent = Uint32Array.from({length}, (_, node) => (node === 0 ? 0 : parentOf(nodes[node - 1].parent)));
  nodes.forEach((node, i) => {
    own[parent[i + 1]][0] -= node.bytes[0];
    own[parent[i + 1]][1] -= node.bytes[1];
  });
  const self = Float64Array.from(own, ([a, b]) => Math.max(a, b, 0));
  const total = self.slice();
  // Callers come before callees.
  for (let node = length - 1; node > 0; node--) total[parent[node]] += total[node];
  const none = new Float64Array(length);
  const layout = layOut({
    parent,
    key: Uint32Array.from({length}, (_, node) => node),
    total,
    self,
    totalCount: none,
    selfCount: none,
  });
  return {
    layout,
    text: ['all', ...nodes.map(({text}) => text)],
    bytes: [bytes, ...nodes.map(node => node.bytes)],
  };
}

function parentOf(place: number | null): number {
  return place === null ? 0 : place + 1;
}

/** From -1, all of it went, to 1, all of it is new. */
export function changeShare([before, after]: readonly [number, number]): number {
  const larger = Math.max(before, after);
  return larger > 0 ? (after - before) / larger : 0;
}

/** Red for more, blue for less: the stronger, the larger the part that changed. */
export function changeColour(share: number, shade: Shade): string {
  const strength = Math.min(1, Math.abs(share)) ** 0.6;
  const hue = share > 0 ? 8 : 215;
  const saturation = Math.round(6 + 70 * strength);
  const lightness = shade === 'light' ? 88 - 22 * strength : 24 + 16 * strength;
  return `hsl(${hue} ${share === 0 ? 0 : saturation}% ${Math.round(lightness)}%)`;
}
