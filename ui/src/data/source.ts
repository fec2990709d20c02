/** Where the data come from: the program that serves the page, or the page itself. */

import type {Manifest} from './manifest';

/** What a source knows of a file before it is read. */
export interface FileState {
  id: number;
  name: string;
  bytes?: number;
  state: 'reading' | 'ready' | 'failed';
  changed_on_disk?: boolean;
  problem?: ProblemBody;
}

/** An error as the program words it. */
export interface ProblemBody {
  error: string;
  causes?: string[];
  hint?: string | null;
}

/** An error that the page shows as the terminal would: what, why, and what to do. */
export class Problem extends Error {
  readonly causes: string[];
  readonly hint: string | undefined;

  constructor(body: ProblemBody) {
    super(body.error);
    this.causes = body.causes ?? [];
    this.hint = body.hint ?? undefined;
  }

  /** Any thrown value as a problem. */
  static from(thrown: unknown): Problem {
    if (thrown instanceof Problem) return thrown;
    return new Problem({error: thrown instanceof Error ? thrown.message : String(thrown)});
  }

  body(): ProblemBody {
    return {error: this.message, causes: this.causes, hint: this.hint ?? null};
  }
}

/** How the worker gets at the bytes of a section: plain data, for it crosses to the worker. */
export type SectionAddress = {url: string} | {packed: string};

/** One of the two places that a page's data can come from. */
export interface Source {
  /** Whether snapshots can be added, and what-ifs asked. */
  readonly isServed: boolean;
  files(): Promise<FileState[]>;
  manifest(file: number): Promise<Manifest>;
  address(file: number, name: string): SectionAddress;
  /** The document of a JSON section. */
  json<T>(file: number, name: string): Promise<T>;
  /** Adds a file; gives its id. */
  add(file: File): Promise<number>;
  /** `highwater-simulate` with timelines, for settings and capacities. */
  simulate<T>(file: number, query: URLSearchParams, signal: AbortSignal): Promise<T>;
}

/** The source of this page. */
export function sourceOfPage(): Source {
  return document.getElementById('manifest') ? new PageSource() : new ServedSource();
}

/** The loopback server of `highwater view`; every address is relative to the page's, token and all. */
class ServedSource implements Source {
  readonly isServed = true;

  async files(): Promise<FileState[]> {
    const list = await this.get<{files: FileState[]}>('api/files');
    return list.files;
  }

  manifest(file: number): Promise<Manifest> {
    return this.get(`api/files/${file}/manifest`);
  }

  address(file: number, name: string): SectionAddress {
    return {url: new URL(`api/files/${file}/sections/${name}`, document.baseURI).href};
  }

  json<T>(file: number, name: string): Promise<T> {
    return this.get(`api/files/${file}/sections/${name}`);
  }

  async add(file: File): Promise<number> {
    const added = await this.get<{id: number}>(`api/files?name=${encodeURIComponent(file.name)}`, {
      method: 'POST',
      body: file,
    });
    return added.id;
  }

  simulate<T>(file: number, query: URLSearchParams, signal: AbortSignal): Promise<T> {
    return this.get(`api/files/${file}/simulate?${query}`, {signal});
  }

  private async get<T>(path: string, init?: RequestInit): Promise<T> {
    const response = await reach(new URL(path, document.baseURI).href, init);
    return (await response.json()) as T;
  }
}

/**
 * A response of the server.
 *
 * Throws a `Problem`: the server's own, or that it cannot be reached.
 */
export async function reach(url: string, init?: RequestInit): Promise<Response> {
  let response: Response;
  try {
    response = await fetch(url, init);
  } catch (error) {
    if (error instanceof DOMException && error.name === 'AbortError') throw error;
    throw new Problem({
      error: 'the program that serves this page cannot be reached',
      hint: 'was `highwater view` ended? Start it again and open the address that it prints',
    });
  }
  if (!response.ok) {
    const body = (await response.json().catch(() => null)) as ProblemBody | null;
    throw new Problem(body?.error ? body : {error: `the program answered ${response.status} ${response.statusText}`});
  }
  return response;
}

/** The single-file page: packed sections in its own scripts. */
class PageSource implements Source {
  readonly isServed = false;

  async files(): Promise<FileState[]> {
    const manifest = await this.manifest();
    return [{id: 0, name: manifest.name, state: 'ready'}];
  }

  async manifest(): Promise<Manifest> {
    return JSON.parse(await unpackText(packed('manifest'))) as Manifest;
  }

  address(_file: number, name: string): SectionAddress {
    return {packed: packed(`section:${name}`)};
  }

  async json<T>(_file: number, name: string): Promise<T> {
    return JSON.parse(await unpackText(packed(`section:${name}`))) as T;
  }

  add(): Promise<number> {
    return Promise.reject(
      new Problem({
        error: 'this page holds one snapshot and cannot read another',
        hint: 'open another with `highwater view FILE`',
      }),
    );
  }

  simulate<T>(): Promise<T> {
    return Promise.reject(
      new Problem({
        error: 'this page cannot simulate: it is a file, with no program behind it',
        hint: 'ask `highwater view FILE`, or `highwater simulate FILE`',
      }),
    );
  }
}

function packed(id: string): string {
  const script = document.getElementById(id);
  if (!script?.textContent)
    throw new Problem({error: `the page lacks \`${id}\``, hint: 'was the file cut? Make it anew'});
  return script.textContent;
}

/** Text from base64 of gzip. */
async function unpackText(base64: string): Promise<string> {
  return new TextDecoder().decode(await unpack(base64));
}

/** Characters of base64 that are decoded at a time: a multiple of 4. */
const PIECE_CHARACTERS = 1 << 20;

/** Bytes from base64 of gzip, in pieces, so that a large page is never there twice. */
export async function unpack(base64: string): Promise<Uint8Array> {
  let at = 0;
  const pieces = new ReadableStream<Uint8Array<ArrayBuffer>>({
    pull(controller) {
      if (at >= base64.length) return controller.close();
      const binary = atob(base64.slice(at, at + PIECE_CHARACTERS));
      at += PIECE_CHARACTERS;
      const bytes = new Uint8Array(binary.length);
      for (let i = 0; i < binary.length; i++) bytes[i] = binary.charCodeAt(i);
      controller.enqueue(bytes);
    },
  });
  const inflated = pieces.pipeThrough(new DecompressionStream('gzip'));
  return new Uint8Array(await new Response(inflated).arrayBuffer());
}

/** The bytes of a section. */
export async function sectionBytes(address: SectionAddress): Promise<Uint8Array> {
  if ('packed' in address) return unpack(address.packed);
  const response = await reach(address.url);
  return new Uint8Array(await response.arrayBuffer());
}
