/** Stacks, frames and call sites: tables of the whole file. */

import type {Column} from '../data/section';
import {shortFrame} from './frames';
import {hashOf} from './hash';

/** Whose code a frame is: `crates/analysis/src/folding.rs`. */
export const OWNERS = ['user', 'torch', 'generated', 'python', 'native', 'unwinding'] as const;

/** One of `OWNERS`. */
export type Owner = (typeof OWNERS)[number];

/** The section `frames`. */
export interface FrameTable {
  strings: string[];
  name: number[];
  file: number[];
  line: number[];
  owner: number[];
  /** What to say for a stack that no frame stands for. */
  labels: string[];
}

/** A frame as it is shown. */
export interface Frame {
  readonly name: string;
  readonly file: string;
  readonly line: number;
  readonly owner: Owner;
}

/** A call site: a frame, or a label's number past the last frame. */
export type Site = number;

/** The stacks of a file. */
export class Stacks {
  readonly count: number;
  readonly sites: Column;
  private readonly frames: FrameTable;
  private readonly parent: Column;
  private readonly frame: Column;
  private readonly node: Column;

  constructor(frames: FrameTable, parent: Column, frame: Column, node: Column, sites: Column) {
    this.frames = frames;
    this.parent = parent;
    this.frame = frame;
    this.node = node;
    this.sites = sites;
    this.count = node.length;
  }

  /** How many call sites there can be: frames, and labels. */
  get siteCount(): number {
    return this.frames.name.length + this.frames.labels.length;
  }

  get frameCount(): number {
    return this.frames.name.length;
  }

  /** Whose a frame is: a row of `OWNERS`. */
  ownerOf(frame: number): number {
    return this.frames.owner[frame];
  }

  /** How many nodes the tree of stacks has. */
  get nodeCount(): number {
    return this.parent.length;
  }

  /** The innermost frame's node of a stack, or -1 for a stack without frames. */
  nodeOf(stack: number): number {
    return this.node[stack] < this.parent.length ? this.node[stack] : -1;
  }

  /** The node that called a node, or -1 for an outermost frame. */
  parentOf(node: number): number {
    return this.parent[node] === node ? -1 : this.parent[node];
  }

  /** The row of the frame of a node. */
  frameOf(node: number): number {
    return this.frame[node];
  }

  /** The frames of a stack, innermost first. */
  framesOf(stack: number): Frame[] {
    const frames: Frame[] = [];
    for (let node = this.nodeOf(stack); node >= 0; node = this.parentOf(node))
      frames.push(this.frameAt(this.frame[node]));
    return frames;
  }

  /** A frame by its row. */
  frameAt(row: number): Frame {
    const {strings, name, file, line, owner} = this.frames;
    return {name: strings[name[row]], file: strings[file[row]], line: line[row], owner: OWNERS[owner[row]] ?? 'user'};
  }

  /** What to say for a stack whose site is no frame. */
  labelOf(site: Site): string | undefined {
    return this.frames.labels[site - this.frames.name.length];
  }

  /** A site in a line. */
  describeSite(site: Site): string {
    return this.labelOf(site) ?? shortFrame(this.frameAt(site));
  }

  /** For each stack, a number made from its frames' words: a stack has the same in every file. */
  stackHashes(): Uint32Array {
    const frames = Uint32Array.from(this.frames.name, (_, row) => hashOf(shortFrame(this.frameAt(row))));
    const nodes = new Uint32Array(this.parent.length);
    // Parents come first.
    for (let node = 0; node < nodes.length; node++) {
      const parent = this.parentOf(node);
      nodes[node] = hashOf(String(frames[this.frame[node]]), parent < 0 ? undefined : nodes[parent]);
    }
    return Uint32Array.from(this.node, (node, stack) =>
      node < nodes.length ? nodes[node] : hashOf(this.describeSite(this.sites[stack])),
    );
  }

  /** For each frame, then each label, whether a text is in it, whatever its case. */
  sitesWith(text: string): Uint8Array {
    const wanted = text.toLowerCase();
    const {strings, name, file, labels} = this.frames;
    const holds = strings.map(string => string.toLowerCase().includes(wanted));
    const found = new Uint8Array(this.siteCount);
    for (let row = 0; row < name.length; row++) {
      const isFound = holds[name[row]] || holds[file[row]] || this.placeAt(row).toLowerCase().includes(wanted);
      found[row] = isFound ? 1 : 0;
    }
    labels.forEach((label, i) => {
      found[name.length + i] = label.toLowerCase().includes(wanted) ? 1 : 0;
    });
    return found;
  }

  /** For each frame its name and its place, a line each; then each label. */
  siteTexts(): string[] {
    const {strings, name, labels} = this.frames;
    return [...name.map((string, row) => `${strings[string]}\n${this.placeAt(row)}`), ...labels];
  }

  private placeAt(row: number): string {
    const {strings, file, line} = this.frames;
    return `${strings[file[row]]}:${line[row]}`;
  }

  /** For each stack, whether one of its frames, or its label, is among some sites: one byte a site. */
  stacksThrough(sites: Uint8Array): Uint8Array {
    const nodes = new Uint8Array(this.parent.length);
    // Parents come first.
    for (let node = 0; node < nodes.length; node++) {
      nodes[node] = sites[this.frame[node]] | (this.parent[node] === node ? 0 : nodes[this.parent[node]]);
    }
    return Uint8Array.from(this.node, (node, stack) => {
      if (node < nodes.length && nodes[node]) return 1;
      const site = this.sites[stack];
      return site >= this.frameCount ? sites[site] : 0;
    });
  }
}
