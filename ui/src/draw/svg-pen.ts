/** A pen that writes SVG: what a canvas is drawn with, drawn with the same calls as text. */

/** The calls that it knows. */
export type BoxPen = Pick<CanvasRenderingContext2D, 'fillRect' | 'strokeRect' | 'fillText' | 'measureText'> & {
  fillStyle: unknown;
  strokeStyle: unknown;
  lineWidth: number;
  font: string;
  textAlign: CanvasTextAlign;
  textBaseline: CanvasTextBaseline;
  globalAlpha: number;
};

/** Text may hold markup: a frame's name is whatever a program says. */
export function escaped(text: string): string {
  const signs: Record<string, string> = {'&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;'};
  // Control characters and lone surrogates are no XML, whatever stands for them.
  const readable = text.replace(/[^\P{Cc}\t\n]|\p{Cs}|[\ufffe\uffff]/gu, '\ufffd');
  return readable.replace(/[&<>"']/g, sign => signs[sign]);
}

/** Collects rectangles and texts. */
export class SvgPen implements BoxPen {
  fillStyle: unknown = '#000';
  strokeStyle: unknown = '#000';
  lineWidth = 1;
  font = '11px sans-serif';
  textAlign: CanvasTextAlign = 'left';
  textBaseline: CanvasTextBaseline = 'alphabetic';
  globalAlpha = 1;
  private readonly parts: string[] = [];
  private readonly measure: (text: string) => TextMetrics;

  /** `measure` tells how wide a text is: a canvas knows. */
  constructor(measure: (text: string) => TextMetrics) {
    this.measure = measure;
  }

  fillRect(x: number, y: number, width: number, height: number): void {
    this.parts.push(`<rect ${box(x, y, width, height)} fill="${escaped(String(this.fillStyle))}"${this.alpha()}/>`);
  }

  strokeRect(x: number, y: number, width: number, height: number): void {
    const stroke = `fill="none" stroke="${escaped(String(this.strokeStyle))}" stroke-width="${this.lineWidth}"`;
    this.parts.push(`<rect ${box(x, y, width, height)} ${stroke}${this.alpha()}/>`);
  }

  fillText(text: string, x: number, y: number): void {
    const anchor = {center: 'middle', right: 'end', end: 'end', left: 'start', start: 'start'}[this.textAlign];
    const shift = {middle: '.35em', top: '.8em', hanging: '.8em'}[this.textBaseline as string] ?? '0';
    const colour = escaped(String(this.fillStyle));
    this.parts.push(
      `<text x="${short(x)}" y="${short(y)}" dy="${shift}" text-anchor="${anchor}" fill="${colour}"${this.alpha()}>${escaped(text)}</text>`,
    );
  }

  measureText(text: string): TextMetrics {
    return this.measure(text);
  }

  /** The whole document. */
  finish(width: number, height: number, background: string): string {
    return [
      `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" font-family="system-ui, sans-serif" font-size="11">`,
      `<rect width="100%" height="100%" fill="${escaped(background)}"/>`,
      ...this.parts,
      '</svg>\n',
    ].join('\n');
  }

  private alpha(): string {
    return this.globalAlpha === 1 ? '' : ` opacity="${this.globalAlpha}"`;
  }
}

function box(x: number, y: number, width: number, height: number): string {
  return `x="${short(x)}" y="${short(y)}" width="${short(width)}" height="${short(height)}"`;
}

function short(value: number): string {
  return String(Math.round(value * 100) / 100);
}
