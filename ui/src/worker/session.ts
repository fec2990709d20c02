/** What the worker holds of the device that is looked at: columns as they are asked for, and the index over them. */

import {type ColumnSection, type DeviceManifest, hasPayload, type JsonSection, type Manifest} from '../data/manifest';
import {bytesOf, type Column, decodeColumn} from '../data/section';
import {Problem, type SectionAddress, sectionBytes} from '../data/source';
import {type Axis, type AxisKind, entryAxis, timeAxis} from '../model/axis';
import type {Lifetimes} from '../model/lifetimes';
import type {Outside} from '../model/outside';
import type {Pending} from '../model/pending';
import {makePieces, type Pieces} from '../model/pieces';
import {type FrameTable, Stacks} from '../model/stacks';
import {TimelineIndex} from '../model/timeline-index';
import {Stretches} from './stretches';

/** What it takes to open a device. */
export interface OpenRequest {
  manifest: Manifest;
  device: number;
  /** Of every section, by its name. */
  addresses: Record<string, SectionAddress>;
}

/** One device of one file. */
export class Session {
  readonly request: OpenRequest;
  readonly device: DeviceManifest;
  /** There once it is open, as are the two below. */
  lifetimes!: Lifetimes;
  index!: TimelineIndex;
  /** Row of the stacks, for each lifetime. */
  stack!: Column;
  private readonly columns = new Map<string, Promise<Column>>();
  /** Parts of columns, by name and number. */
  private readonly pages = new Map<string, Promise<Column>>();
  private readonly made = new Map<string, Promise<unknown>>();
  private stretches: Stretches | undefined;

  private constructor(request: OpenRequest, device: DeviceManifest) {
    this.request = request;
    this.device = device;
  }

  /** Reads what the timeline needs, and makes its index. */
  static async open(request: OpenRequest): Promise<Session> {
    const device = request.manifest.devices.find(({device}) => device === request.device);
    if (!device) throw new Problem({error: `the file has no device ${request.device}`});
    const session = new Session(request, device);
    const base = Promise.all(['start', 'end', 'size', 'stack'].map(name => session.column(name)));
    // What the first picture needs besides comes meanwhile; who waits for it hears of problems.
    for (const wanted of [session.stacks(), session.pending(), session.pieces()]) wanted.catch(() => {});
    const [start, end, size, stack] = await base;
    const {rows, before, unit_bytes: unitBytes} = device;
    session.lifetimes = {rows, entries: session.entries, before, unitBytes, start, end, size};
    session.index = new TimelineIndex(session.lifetimes);
    session.stack = stack;
    return session;
  }

  /** Number of trace entries, at least 1: without any, "after entry 0" is the dump. */
  private get entries(): number {
    return Math.max(this.device.entries, 1);
  }

  /** A column of the device. */
  column(name: string): Promise<Column> {
    const starts = () => this.column('start');
    const key = `${this.device.device}/${name}`;
    const {sections} = this.device;
    return remember(this.columns, name, () => loadSection(sections[name], this.request.addresses[key], key, starts));
  }

  /** One number of a column: `cells` of one row. */
  async cell(name: string, row: number): Promise<number> {
    return (await this.cells(name, [row]))[0];
  }

  /**
   * The numbers of a column at some rows, which ascend. Of a large column that is not here, only the parts around them are fetched:
   * a state needs three columns of those blocks alone that are live, and the allocation under the pointer a row of six. They are
   * written to `cells`, which has one for each row.
   */
  async cells<T extends Float64Array>(name: string, rows: ArrayLike<number>, cells: T): Promise<T>;
  async cells(name: string, rows: ArrayLike<number>): Promise<Float64Array>;
  async cells(name: string, rows: ArrayLike<number>, cells = new Float64Array(rows.length)): Promise<Float64Array> {
    const section = this.device.sections[name];
    if (section?.constant !== undefined) return cells.fill(section.constant);
    const address = this.request.addresses[`${this.device.device}/${name}`];
    const canPart = section && address && 'url' in address && (section.encoding ?? 'raw') === 'raw';
    const numbers = pagesOf(rows);
    const isScattered = numbers.length > PAGES_AT_ONCE_MAX;
    if (this.columns.has(name) || !canPart || bytesOf(section) < WHOLE_BYTES_MAX || isScattered) {
      const column = await this.column(name);
      for (let i = 0; i < rows.length; i++) cells[i] = column[rows[i]];
      return cells;
    }
    const pages = await Promise.all(numbers.map(page => this.page(name, section, address, page)));
    for (let i = 0, at = 0; i < rows.length; i++) {
      while (rows[i] >= (numbers[at] + 1) * PAGE_ROWS) at++;
      cells[i] = pages[at][rows[i] - numbers[at] * PAGE_ROWS];
    }
    // Those that were used longest ago go.
    for (const key of this.pages.keys()) {
      if (this.pages.size <= PAGES_MAX) break;
      this.pages.delete(key);
    }
    return cells;
  }

  private page(name: string, section: ColumnSection, address: {url: string}, page: number): Promise<Column> {
    const key = `${name} ${page}`;
    const known = this.pages.get(key);
    if (known) {
      this.pages.delete(key);
      this.pages.set(key, known);
      return known;
    }
    return remember(this.pages, key, () =>
      this.rows(`${this.device.device}/${name}`, section, address, page * PAGE_ROWS),
    );
  }

  /** The rows of a part of a column that is served raw. */
  private async rows(name: string, section: ColumnSection, {url}: {url: string}, from: number): Promise<Column> {
    this.stretches ??= new Stretches(url, name);
    const length = Math.min(PAGE_ROWS, section.length - from);
    const width = bytesOf(section) / section.length;
    const bytes = await this.stretches.fetch({name, from: from * width, to: (from + length) * width});
    return decodeColumn({type: section.type, length}, bytes);
  }

  /** Whether the device has a column. */
  has(name: string): boolean {
    return name in this.device.sections;
  }

  /** The stacks of the file. */
  stacks(): Promise<Stacks> {
    return this.once('stacks', async () => {
      const {manifest, addresses} = this.request;
      const names = ['node_parent', 'node_frame', 'stack_node', 'stack_site'];
      const columns = Promise.all(names.map(name => loadSection(manifest.sections[name], addresses[name], name)));
      const frames = JSON.parse(new TextDecoder().decode(await sectionBytes(addresses.frames))) as FrameTable;
      const [parent, frame, node, site] = await columns;
      return new Stacks(frames, parent, frame, node, site);
    });
  }

  /** Reserved memory. */
  pieces(): Promise<Pieces> {
    return this.once('pieces', async () => {
      const names = ['segment', 'offset', 'size', 'start', 'end'];
      const [segment, offset, size, start, end] = await Promise.all(names.map(name => this.column(`piece_${name}`)));
      const segments = this.device.sections.segment_address.length;
      return makePieces({segment, offset, size, start, end}, segments, this.entries, this.device.unit_bytes);
    });
  }

  /** Memory outside PyTorch, where the driver was recorded. */
  async outside(): Promise<Outside | undefined> {
    const {outside} = this.device;
    if (!outside) return undefined;
    return this.once('outside', async () => {
      const names = ['entry', 'owner', 'bytes'].map(name => this.column(`outside_${name}`));
      const [entry, owner, bytes] = await Promise.all(names);
      const ofBlocks = ['address', 'bytes', 'owner', 'start', 'end', 'site'];
      const columns = await Promise.all(ofBlocks.map(name => this.column(`outside_block_${name}`)));
      const [address, size, whose, start, end, site] = columns;
      const blocks = {address, bytes: size, owner: whose, start, end, site};
      return {owners: outside.owners.length, entry, owner, bytes, blocks};
    });
  }

  /** The rows that await their free for longer than an entry. */
  pending(): Promise<Pending> {
    return this.once('pending', async () => {
      const [rows, entries] = await Promise.all([this.column('pending_row'), this.column('pending_entry')]);
      const isPending = new Uint8Array(rows.length === 0 ? 0 : this.device.rows);
      const requestedAt = new Map<number, number>();
      rows.forEach((row: number, i: number) => {
        isPending[row] = 1;
        requestedAt.set(row, entries[i]);
      });
      return {isPending, requestedAt};
    });
  }

  /** The x axis. */
  axis(kind: AxisKind): Promise<Axis> {
    return this.once(`axis-${kind}`, async () => {
      if (kind === 'entry') return entryAxis(this.entries);
      return timeAxis(await this.times());
    });
  }

  /** Microseconds since the first entry, never falling. */
  times(): Promise<Column> {
    return this.column('time');
  }

  /** Makes something once. */
  once<T>(name: string, make: () => Promise<T>): Promise<T> {
    return remember(this.made as Map<string, Promise<T>>, name, make);
  }
}

/** Columns up to this size are fetched whole, even for one number. */
const WHOLE_BYTES_MAX = 4 << 20;
const PAGE_ROWS = 512;
const PAGES_MAX = 512;
/** Rows that lie in more parts have their whole column fetched. */
const PAGES_AT_ONCE_MAX = 128;

/** The parts of a column that rows lie in, which ascend. */
function pagesOf(rows: ArrayLike<number>): number[] {
  const pages: number[] = [];
  for (let i = 0; i < rows.length; i++) {
    const page = Math.floor(rows[i] / PAGE_ROWS);
    if (page !== pages.at(-1)) pages.push(page);
  }
  return pages;
}

/** `starts` gives what an `end` counts from. */
async function loadSection(
  section: ColumnSection | JsonSection | undefined,
  address: SectionAddress | undefined,
  name: string,
  starts?: () => Promise<Column>,
): Promise<Column> {
  if (!section || section.type === 'json') throw new Problem({error: `the file has no column \`${name}\``});
  if (!hasPayload(section)) return decodeColumn(section, new Uint8Array());
  if (!address) throw new Problem({error: `the page does not know where section \`${name}\` is`});
  const payload = await sectionBytes(address);
  return decodeColumn(section, payload, section.encoding === 'length' ? await starts?.() : undefined);
}

/** The promise under a name, made if it is new; one that fails is forgotten, so that it can be tried again. */
function remember<T>(map: Map<string, Promise<T>>, name: string, make: () => Promise<T>): Promise<T> {
  const known = map.get(name);
  if (known) return known;
  const made = make();
  map.set(name, made);
  made.catch(() => map.delete(name));
  return made;
}
