/** A flame graph on its canvas: keeps it at the size of the page, and draws once a frame. */

import {SvgPen} from '../../draw/svg-pen';
import {boxAt, childrenOf, type FlameLayout, levelOf} from '../../model/flame-layout';
import {type BoxLooks, drawFlame, type FlameInk, type FlameWindow, levelAt, ROW_CSS, topOf} from './flame-draw';

/** What is drawn. */
export interface FlameScene {
  readonly layout: FlameLayout;
  readonly looks: BoxLooks;
  readonly grows: 'down' | 'up';
  /** The box that is as wide as the picture. */
  readonly zoomed: number;
  /** Outlined; -1 for none. */
  readonly chosen: number;
}

export class FlameCanvas {
  readonly canvas: HTMLCanvasElement;
  private readonly host: HTMLElement;
  private readonly observer: ResizeObserver;
  private scene: FlameScene | undefined;
  private frame = 0;
  private scrollCss = 0;

  constructor(host: HTMLElement) {
    this.host = host;
    this.canvas = host.appendChild(document.createElement('canvas'));
    this.observer = new ResizeObserver(() => this.resize());
    this.observer.observe(host);
    this.resize();
  }

  stop(): void {
    this.observer.disconnect();
    cancelAnimationFrame(this.frame);
    this.canvas.remove();
  }

  show(scene: FlameScene): void {
    if (scene.layout !== this.scene?.layout) this.scrollCss = 0;
    this.scene = scene;
    this.scrollBy(0);
    this.schedule();
  }

  /** The box at a place of the host, or -1. */
  hit(x: number, y: number): number {
    if (!this.scene) return -1;
    const window = this.window(this.scene);
    const position = window.from + (x / window.widthCss) * (window.to - window.from);
    return boxAt(this.scene.layout, levelAt(window, y), position);
  }

  /** Moves away from the root. Gives whether that was possible. */
  scrollBy(css: number): boolean {
    if (!this.scene) return false;
    const levels = this.scene.layout.levelFrom.length - 1;
    const most = Math.max(0, levels * ROW_CSS - this.host.clientHeight);
    const to = Math.min(Math.max(0, this.scrollCss + css), most);
    if (to === this.scrollCss) return false;
    this.scrollCss = to;
    this.schedule();
    return true;
  }

  /** Where the left end of a box is in the window. */
  placeOf(box: number): {x: number; y: number} {
    const {left, top, width} = this.host.getBoundingClientRect();
    if (!this.scene || box < 0) return {x: left, y: top};
    const window = this.window(this.scene);
    const along = (this.scene.layout.left[box] - window.from) / (window.to - window.from);
    const level = levelOf(this.scene.layout, box);
    return {x: left + Math.min(Math.max(along, 0), 0.9) * width, y: top + topOf(window, level) + ROW_CSS};
  }

  /** Scrolls until a box can be seen. */
  reveal(box: number): void {
    if (!this.scene || box < 0) return;
    const top = levelOf(this.scene.layout, box) * ROW_CSS;
    const low = top + ROW_CSS - this.host.clientHeight;
    if (top < this.scrollCss) this.scrollBy(top - this.scrollCss);
    else if (low > this.scrollCss) this.scrollBy(low - this.scrollCss);
  }

  /** All levels, as SVG. */
  toSvg(): string {
    const {scene} = this;
    if (!scene) return '';
    const measuring = this.canvas.getContext('2d')!;
    const pen = new SvgPen(text => measuring.measureText(text));
    const heightCss = (scene.layout.levelFrom.length - 1) * ROW_CSS;
    const window = {...this.window(scene), heightCss, scrollCss: 0};
    drawFlame(pen, scene.layout, scene.looks, window, this.ink(), -1);
    return pen.finish(window.widthCss, heightCss, this.colour('plot'));
  }

  private window({layout, grows, zoomed}: FlameScene): FlameWindow {
    return {
      widthCss: Math.max(1, this.host.clientWidth),
      heightCss: Math.max(1, this.host.clientHeight),
      from: layout.left[zoomed],
      to: layout.left[zoomed] + Math.max(layout.total[zoomed], Number.MIN_VALUE),
      scrollCss: this.scrollCss,
      grows,
      // Over time, narrow boxes show a rhythm; else they are the small rest beside what matters.
      smallCss: layout.weight ? 1.5 : 3,
    };
  }

  private schedule(): void {
    if (this.frame !== 0) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      this.draw();
    });
  }

  private resize(): void {
    const ratio = globalThis.devicePixelRatio || 1;
    this.canvas.width = Math.round(this.host.clientWidth * ratio);
    this.canvas.height = Math.round(this.host.clientHeight * ratio);
    this.canvas.style.cssText = `position:absolute;inset:0;width:${this.host.clientWidth}px;height:${this.host.clientHeight}px`;
    this.scrollBy(0);
    this.schedule();
  }

  private draw(): void {
    const pen = this.canvas.getContext('2d');
    if (!pen || !this.scene || this.canvas.width === 0) return;
    const ratio = globalThis.devicePixelRatio || 1;
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.fillStyle = this.colour('plot');
    pen.fillRect(0, 0, this.canvas.width, this.canvas.height);
    const {layout, looks, chosen} = this.scene;
    drawFlame(pen, layout, looks, this.window(this.scene), this.ink(), chosen);
  }

  private ink(): FlameInk {
    const [text, faint, accent] = ['text', 'faint', 'accent'].map(name => this.colour(name));
    return {
      text,
      faint,
      accent,
      merged: this.colour('line'),
      match: this.colour('match'),
      onMatch: this.colour('on-match'),
    };
  }

  private colour(name: string): string {
    return getComputedStyle(this.host).getPropertyValue(`--${name}`).trim();
  }
}

/** The box that a key leads to from another: to its caller, its first callee, or what is beside it. */
export function neighbour(layout: FlameLayout, box: number, key: string, grows: 'down' | 'up'): number {
  const out = grows === 'down' ? 'ArrowUp' : 'ArrowDown';
  const into = grows === 'down' ? 'ArrowDown' : 'ArrowUp';
  if (box < 0) return 0;
  if (key === out) return layout.parent[box];
  if (key === into) {
    const [from, to] = childrenOf(layout, box);
    return from < to ? from : box;
  }
  const level = levelOf(layout, box);
  const beside = key === 'ArrowLeft' ? box - 1 : box + 1;
  return beside >= layout.levelFrom[level] && beside < layout.levelFrom[level + 1] ? beside : box;
}
