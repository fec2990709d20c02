/** Where the data come from: the program that serves the page, or the page itself. */

import type {HeatDevice} from '../model/heat';
import type {Curves, StackTree} from './curves';
import type {Diff} from './generated/diff';
import type {Ranks} from './generated/ranks';
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

/** How far the program is with an answer of the simulator. */
export interface SimulationProgress {
  /** `waiting` for another question, replaying the `recording` as it was, or `running` it under the settings. */
  stage: 'waiting' | 'recording' | 'running';
  /** Of the recording. */
  entries: number;
  recorded_entries: number;
  /** Settings of which all runs are done. */
  settings_done: number;
  /** `runs` were begun under each; the last of them is `at_entry`. */
  settings: {conf: string; runs: number; at_entry: number}[];
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
  /** Where the page that needs no program comes from, as a download that opens on a place. */
  pageAddress(file: number, place: string): string;
  /** Adds a file; gives its id. */
  add(file: File): Promise<number>;
  /** Each device of a file, in so many parts. */
  curves(file: number, parts: number, signal?: AbortSignal): Promise<Curves>;
  /** The curves of many files without parts, by file; one that cannot be read has none. */
  peaks(files: readonly number[], signal?: AbortSignal): Promise<Record<number, Curves>>;
  /** Each device of many files in few parts of its time, by measure. */
  heats(files: readonly number[], signal?: AbortSignal): Promise<Record<number, {devices: HeatDevice[]}>>;
  /** The document of `highwater ranks` of all files. */
  ranks(signal?: AbortSignal): Promise<Ranks>;
  /** The document of `highwater diff`, from one file to another, of a device of each. */
  diff(file: number, other: number, devices: readonly [number, number]): Promise<Diff>;
  /** The stacks of both at the same moments. */
  diffStacks(file: number, other: number, devices: readonly [number, number]): Promise<StackTree>;
  /** `highwater-simulate` with timelines, for settings and capacities. */
  simulate<T>(file: number, query: URLSearchParams, signal: AbortSignal): Promise<T>;
  /** How far it is with the same question; `null` if it is not at it. */
  simulationProgress(file: number, query: URLSearchParams, signal: AbortSignal): Promise<SimulationProgress | null>;
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

  pageAddress(file: number, place: string): string {
    const query = place === '' ? '' : `?${new URLSearchParams({place})}`;
    return new URL(`api/files/${file}/page${query}`, document.baseURI).href;
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

  curves(file: number, parts: number, signal?: AbortSignal): Promise<Curves> {
    return this.get(`api/files/${file}/curves?parts=${parts}`, {signal: signal ?? null});
  }

  peaks(files: readonly number[], signal?: AbortSignal): Promise<Record<number, Curves>> {
    return this.get(`api/outlines?of=peaks&files=${files}`, {signal: signal ?? null});
  }

  heats(files: readonly number[], signal?: AbortSignal): Promise<Record<number, {devices: HeatDevice[]}>> {
    return this.get(`api/outlines?of=heat&files=${files}`, {signal: signal ?? null});
  }

  ranks(signal?: AbortSignal): Promise<Ranks> {
    return this.get('api/ranks', {signal: signal ?? null});
  }

  diff(file: number, other: number, devices: readonly [number, number]): Promise<Diff> {
    return this.get(`api/files/${file}/diff?with=${other}&device=${devices}`);
  }

  diffStacks(file: number, other: number, devices: readonly [number, number]): Promise<StackTree> {
    return this.get(`api/files/${file}/diff/stacks?with=${other}&device=${devices}`);
  }

  simulationProgress(file: number, query: URLSearchParams, signal: AbortSignal): Promise<SimulationProgress | null> {
    return this.get(`api/files/${file}/simulate/progress?${query}`, {signal});
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
      error: 'highwater, which serves this page, cannot be reached',
      hint: 'if `highwater view` has ended, start it again and open the address it prints',
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

  pageAddress(): string {
    return '';
  }

  add(): Promise<number> {
    return Promise.reject(
      new Problem({
        error: 'this page holds one snapshot and cannot read another',
        hint: 'open others with `highwater view FILE`',
      }),
    );
  }

  curves(): Promise<Curves> {
    return Promise.reject(alone());
  }

  peaks(): Promise<Record<number, Curves>> {
    return Promise.reject(alone());
  }

  heats(): Promise<Record<number, {devices: HeatDevice[]}>> {
    return Promise.reject(alone());
  }

  ranks(): Promise<Ranks> {
    return Promise.reject(alone());
  }

  diff(): Promise<Diff> {
    return Promise.reject(alone());
  }

  diffStacks(): Promise<StackTree> {
    return Promise.reject(alone());
  }

  simulationProgress(): Promise<null> {
    return Promise.resolve(null);
  }

  simulate<T>(): Promise<T> {
    return Promise.reject(
      new Problem({
        error: 'this page is a file without highwater, so it cannot simulate',
        hint: 'use `highwater view FILE` or `highwater simulate FILE`',
      }),
    );
  }
}

function alone(): Problem {
  return new Problem({
    error: 'this page holds one recording',
    hint: 'compare recordings with `highwater view A B`, or `highwater diff A B`',
  });
}

/** The place that a single-file page was made at, as the text after `#`; `''` where it has none. */
export function placeOfPage(): string {
  const text = document.getElementById('place')?.textContent;
  if (!text) return '';
  return new TextDecoder().decode(Uint8Array.from(atob(text), letter => letter.charCodeAt(0)));
}

function packed(id: string): string {
  const script = document.getElementById(id);
  if (!script?.textContent)
    throw new Problem({error: `the page lacks \`${id}\``, hint: 'the file may be truncated: export it again'});
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
