/** Saving what a view shows: as PNG, or as SVG around the same picture with its words as text. */

import {signal} from '@preact/signals';

/** What there is to save. */
export interface Saved {
  readonly canvas: HTMLCanvasElement;
  /** Of the view, for the file's name. */
  readonly name: string;
  /** The same as a drawing, where the view can make one. */
  readonly svg?: string;
}

const current = signal<(() => Saved) | null>(null);

/** Says what is to be saved while a view is there. Gives what takes that back. */
export function registerPicture(make: () => Saved): () => void {
  current.value = make;
  return () => {
    if (current.value === make) current.value = null;
  };
}

/** The two buttons. */
export function SaveMenu() {
  if (!current.value) return null;
  return (
    <span class="save">
      <button type="button" title="Save the picture as PNG" onClick={() => void savePng()}>
        PNG
      </button>
      <button type="button" title="Save the picture as SVG" onClick={saveSvg}>
        SVG
      </button>
    </span>
  );
}

async function savePng(): Promise<void> {
  const saved = current.value?.();
  if (!saved) return;
  const blob = await new Promise<Blob | null>(resolve => saved.canvas.toBlob(resolve, 'image/png'));
  if (blob) download(blob, `${fileName(saved)}.png`);
}

function saveSvg(): void {
  const saved = current.value?.();
  if (!saved) return;
  const {width, height} = saved.canvas;
  const svg =
    saved.svg ??
    `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}">` +
      `<image width="${width}" height="${height}" href="${saved.canvas.toDataURL('image/png')}"/></svg>`;
  download(new Blob([svg], {type: 'image/svg+xml'}), `${fileName(saved)}.svg`);
}

function fileName({name}: Saved): string {
  const title = document.title.split(' · ')[0].replace(/[^\w.-]+/g, '_');
  return `${title}.${name}`;
}

/** Hands a file to the browser to be saved. */
export function download(blob: Blob, name: string): void {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
