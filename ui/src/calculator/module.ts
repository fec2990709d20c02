/** The WebAssembly module: `crates/estimate-web`, which is `highwater estimate` with JSON on both sides. */

import {Problem} from '../data/source';

interface Exports {
  memory: WebAssembly.Memory;
  highwater_input(bytes: number): number;
  highwater_output(): number;
  highwater_output_bytes(): number;
  highwater_answer(): void;
  highwater_serve(): void;
  highwater_choices(): void;
  highwater_wanted_bytes(nameBytes: number, fileBytes: number): number;
  highwater_describe(nameBytes: number, fileBytes: number): void;
}

/** Bytes of a file by which the module says how many it wants. */
const FIRST_BYTES = 8;

const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** Asks the module. Requests and answers are JSON texts: numbers that JavaScript would round stay as they are. */
export class EstimateModule {
  private readonly compiled: WebAssembly.Module;
  private exports: Exports;

  constructor(compiled: WebAssembly.Module) {
    this.compiled = compiled;
    this.exports = instance(compiled);
  }

  /** The document for a request, or the problem. */
  answer(request: string): string {
    return this.ask(exports => {
      this.write(encoder.encode(request));
      exports.highwater_answer();
    });
  }

  /** The document for a question about serving, or the problem. */
  serve(question: string): string {
    return this.ask(exports => {
      this.write(encoder.encode(question));
      exports.highwater_serve();
    });
  }

  /** What can be chosen. */
  choices(): string {
    return this.ask(exports => exports.highwater_choices());
  }

  /** What a file says of its model, or the problem. Of weights only the header is read. */
  async describe(file: File): Promise<string> {
    const name = encoder.encode(file.name);
    const first = await bytesOf(file, FIRST_BYTES);
    let wanted = 0;
    this.guarded(exports => {
      this.write(name, first);
      wanted = exports.highwater_wanted_bytes(name.length, file.size);
    });
    const start = await bytesOf(file, wanted);
    return this.ask(exports => {
      this.write(name, start);
      exports.highwater_describe(name.length, file.size);
    });
  }

  private ask(call: (exports: Exports) => void): string {
    this.guarded(call);
    const {memory, highwater_output, highwater_output_bytes} = this.exports;
    return decoder.decode(new Uint8Array(memory.buffer, highwater_output(), highwater_output_bytes()));
  }

  /** A call that fails leaves nothing behind: the next one gets a module as new. */
  private guarded(call: (exports: Exports) => void): void {
    try {
      call(this.exports);
    } catch (error) {
      this.exports = instance(this.compiled);
      throw new Problem({
        error: 'this could not be computed',
        causes: [String(error)],
        hint: 'this is an error of highwater: please report the address of this page',
      });
    }
  }

  private write(...parts: Uint8Array[]): void {
    const bytes = parts.reduce((sum, part) => sum + part.length, 0);
    let at = this.exports.highwater_input(bytes);
    for (const part of parts) {
      new Uint8Array(this.exports.memory.buffer, at, part.length).set(part);
      at += part.length;
    }
  }
}

function instance(compiled: WebAssembly.Module): Exports {
  return new WebAssembly.Instance(compiled, {}).exports as unknown as Exports;
}

async function bytesOf(file: File, count: number): Promise<Uint8Array> {
  return new Uint8Array(await file.slice(0, count).arrayBuffer());
}
