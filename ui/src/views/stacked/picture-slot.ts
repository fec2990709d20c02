/**
 * The newest picture that the worker has finished, and the next one it is asked for.
 *
 * The worker makes one at a time; meanwhile the newest is moved and scaled to the present view. Half the resolution while
 * things move, where the last picture took longer than a frame.
 */

import {leaveGarbage} from '../../model/garbage';
import {free} from '../../model/spare';

/** What a picture was asked for, as text: equal texts are the same picture. */
type Key = string;

/** A picture that can be let go. */
interface Pictured {
  readonly bitmap?: ImageBitmap;
  /** In memory that a later picture can have. */
  readonly ids?: Uint32Array;
}

/** What is wanted of the worker. */
export interface Wanted<R> {
  readonly key: Key;
  /** For a part of the device pixels: 1, or less while things move. `spare` is memory for it. */
  request(scale: number, spare: Uint32Array | undefined): R;
}

/** How long a picture may take before the next ones are coarser while things move. */
const SLOW_MS = 24;

/** Holds the newest picture, and asks for the next. */
export class PictureSlot<R, P extends Pictured> {
  /** The newest picture. */
  newest: P | undefined;
  private newestKey: Key = '';
  private spare: Uint32Array | undefined;
  private isCoarse = false;
  private isBusy = false;
  private isOver = false;
  private lastMs = 0;
  private readonly make: (request: R) => Promise<P>;
  private readonly onPicture: (picture: P) => void;
  private readonly onProblem: (error: unknown) => void;

  constructor(make: (request: R) => Promise<P>, onPicture: (picture: P) => void, onProblem: (error: unknown) => void) {
    this.make = make;
    this.onPicture = onPicture;
    this.onProblem = onProblem;
  }

  /** Whether the newest picture is exactly what is wanted. */
  isExact(wanted: Wanted<R>): boolean {
    return this.newestKey === wanted.key && !this.isCoarse;
  }

  /** Asks for what is wanted, unless it is there or the worker is busy; `isMoving` says that more is about to be wanted. */
  ask(wanted: Wanted<R>, isMoving: boolean): void {
    if (this.isBusy || this.isExact(wanted)) return;
    const isCoarse = isMoving && this.lastMs > SLOW_MS;
    if (isCoarse && this.newestKey === wanted.key) return;
    this.isBusy = true;
    const began = performance.now();
    const spare = this.spare;
    this.spare = undefined;
    this.make(wanted.request(isCoarse ? 0.5 : 1, spare)).then(
      picture => {
        this.isBusy = false;
        if (this.isOver) {
          picture.bitmap?.close();
          free(picture.ids);
          return;
        }
        this.lastMs = (performance.now() - began) * (isCoarse ? 2 : 1);
        this.newest?.bitmap?.close();
        this.spare = this.newest?.ids;
        this.newest = picture;
        this.newestKey = wanted.key;
        this.isCoarse = isCoarse;
        leaveGarbage();
        this.onPicture(picture);
      },
      error => {
        this.isBusy = false;
        this.onProblem(error);
      },
    );
  }

  /** Ends it. The megabytes of its picture are free at once, not when garbage is collected next. */
  stop(): void {
    this.isOver = true;
    this.newest?.bitmap?.close();
    for (const numbers of [this.newest?.ids, this.spare]) free(numbers);
    this.newest = undefined;
    this.spare = undefined;
    this.newestKey = '';
  }
}
