/**
 * Memory that is used again, for what is made in every frame: numbers outside the heap are collected late, and a few seconds of a gesture
 * would leave tens of megabytes of them.
 */
export class Spare {
  private buffer: ArrayBuffer | undefined;

  /** So many numbers, of any value. Whoever takes them has them alone, also over an `await`, until they are given back. */
  u32(length: number): Uint32Array<ArrayBuffer> {
    return new Uint32Array(this.take(length * Uint32Array.BYTES_PER_ELEMENT), 0, length);
  }

  f64(length: number): Float64Array<ArrayBuffer> {
    return new Float64Array(this.take(length * Float64Array.BYTES_PER_ELEMENT), 0, length);
  }

  /** Gives back the memory of numbers that nothing reads any more. */
  give({buffer}: Uint32Array<ArrayBuffer> | Float64Array<ArrayBuffer>): void {
    if (buffer.byteLength > (this.buffer?.byteLength ?? 0)) this.buffer = buffer;
  }

  private take(bytes: number): ArrayBuffer {
    const {buffer} = this;
    if (!buffer || buffer.byteLength < bytes) return new ArrayBuffer(bytes);
    this.buffer = undefined;
    return buffer;
  }
}

/** Frees the memory of numbers that nothing reads any more, at once; older browsers do so when they collect garbage. */
export function free(numbers: Uint32Array | undefined): void {
  (numbers?.buffer as {transfer?: (bytes: number) => ArrayBuffer} | undefined)?.transfer?.(0);
}

/** Takes a canvas off the page, and its pixels out of memory. */
export function dismiss(canvas: HTMLCanvasElement): void {
  canvas.width = 0;
  canvas.height = 0;
  canvas.remove();
}
