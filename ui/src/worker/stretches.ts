/** Single numbers of columns that are not here: what is asked for in one go comes in one answer, for each fetch leaves 30 KiB of garbage. */

import {Problem, reach} from '../data/source';

/** Bytes of a section that is served raw. */
interface Stretch {
  /** As the address of the section ends. */
  readonly name: string;
  readonly from: number;
  readonly to: number;
}

type Asked = Stretch & {resolve(bytes: Uint8Array): void; reject(error: unknown): void};

/** So many stretches are asked for at a time: `MAX_STRETCHES` in `crates/viewer/src/routes.rs`. */
const STRETCHES_MAX = 256;

/** Fetches stretches of the sections of one file. */
export class Stretches {
  private asked: Asked[] = [];
  private readonly address: string;

  /** `section` is the address of any of the sections, and `name` how it ends. */
  constructor(section: string, name: string) {
    this.address = `${section.slice(0, section.length - `sections/${name}`.length)}stretches`;
  }

  fetch(stretch: Stretch): Promise<Uint8Array> {
    return new Promise((resolve, reject) => {
      this.asked.push({...stretch, resolve, reject});
      if (this.asked.length === 1) queueMicrotask(() => this.send());
    });
  }

  private send(): void {
    const asked = this.asked;
    this.asked = [];
    for (let at = 0; at < asked.length; at += STRETCHES_MAX) void this.ask(asked.slice(at, at + STRETCHES_MAX));
  }

  private async ask(asked: Asked[]): Promise<void> {
    try {
      const query = asked.map(({name, from, to}) => `of=${name}:${from}-${to}`).join('&');
      const response = await reach(`${this.address}?${query}`);
      const bytes = new Uint8Array(await response.arrayBuffer());
      const wanted = asked.reduce((sum, {from, to}) => sum + to - from, 0);
      if (bytes.length !== wanted)
        throw new Problem({error: `the program sent ${bytes.length} bytes of columns instead of ${wanted}`});
      let at = 0;
      for (const {from, to, resolve} of asked) {
        resolve(bytes.slice(at, at + to - from));
        at += to - from;
      }
    } catch (error) {
      for (const {reject} of asked) reject(error);
    }
  }
}
