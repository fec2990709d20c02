/** The worker: holds the columns of a device, answers questions about them, and makes every picture. */

import {serve, type WorkerScope} from '../data/rpc';
import {Problem} from '../data/source';
import type {AxisKind, AxisRange} from '../model/axis';
import type {Grouping} from '../model/groups';
import {Newest} from '../model/newest';
import {cardPeak} from '../model/outside';
import {describe, moment, rangeTotals} from './details';
import {entryLines} from './entries';
import {aroundFrame, type FlameRequest, flameGraph, foldedLines, frameTable} from './flame';
import {type ChartRequest, chartOfStacks} from './flame-chart';
import {legend} from './grouping';
import {heat, keepHeat} from './heat';
import {histograms} from './histograms';
import {MATCHING} from './matching';
import {describeOutside} from './outside';
import {curve, type StackedRequest} from './pictures';
import {type Found, hits, matchNumber, nextMatch, search, searchTexts} from './search';
import {describeSegment, segments, segmentTotals} from './segments';
import {type OpenRequest, Session} from './session';
import {type StateRequest, state} from './state';
import {type TimelineRequest, timeline} from './timeline';
import {totalsOverTime} from './totals';

let opened: Session | undefined;
let matches: Uint8Array | undefined;
const opens = new Newest();
const searches = new Newest();

function session(): Session {
  if (!opened) throw new Problem({error: 'no file is open'});
  return opened;
}

/** What the page can ask of the worker. */
const methods = {
  /** Reads a device; what was open before is forgotten. */
  async open(
    request: OpenRequest,
  ): Promise<{peakEntry: number; peakBytes: number; reservedMaxBytes: number; cardMaxBytes: number}> {
    const isNewest = opens.begin();
    searches.begin();
    opened = undefined;
    matches = undefined;
    const fresh = await Session.open(request);
    const [pieces, outside] = await Promise.all([fresh.pieces(), fresh.outside()]);
    const {peak: reserved} = pieces.index;
    // Files can be changed faster than they are opened: the one that was asked for last stays.
    if (isNewest()) opened = fresh;
    const {peak} = fresh.index;
    const {unitBytes} = fresh.lifetimes;
    const reservedIn = (from: number, to: number) => {
      const {entry, total} = pieces.index.highestIn(from, to);
      return {entry, bytes: total * unitBytes};
    };
    const card = outside && cardPeak(outside, fresh.lifetimes.entries, reservedIn);
    return {
      // Without blocks of PyTorch's there is only the card's own.
      peakEntry: card && peak.total === 0 ? card.entry : peak.entry,
      peakBytes: peak.total * unitBytes,
      reservedMaxBytes: reserved.total * unitBytes,
      cardMaxBytes: card?.bytes ?? 0,
    };
  },

  timeline: (request: TimelineRequest) => timeline(session(), request, matches),
  state: (request: StateRequest) => state(session(), request, matches),
  entryLines: (from: number, to: number) => entryLines(session(), from, to),
  segments: (request: StackedRequest) => segments(session(), request),
  describeSegment: (segment: number, entry: number) => describeSegment(session(), segment, entry),
  describeOutside: (row: number) => describeOutside(session(), row),
  segmentTotals: (entry: number) => segmentTotals(session(), entry),
  curve: (axis: AxisKind, width: number) => curve(session(), axis, width),
  describe: (row: number, entry: number) => describe(session(), row, entry),
  moment: (entry: number) => moment(session(), entry),
  rangeTotals: (from: number, to: number) => rangeTotals(session(), from, to),
  times: () => session().times(),
  legend: (by: Grouping, entry: number) => legend(session(), by, entry),

  flameGraph: (request: FlameRequest) => flameGraph(session(), request),
  chartOfStacks: (request: ChartRequest) => chartOfStacks(session(), request),
  frameTable: (request: FlameRequest) => frameTable(session(), request),
  aroundFrame: (request: FlameRequest, key: number) => aroundFrame(session(), request, key),
  foldedLines: (request: FlameRequest) => foldedLines(session(), request),
  keepHeat,
  heat,
  histograms: () => histograms(session()),
  totalsOverTime: (columns: number, within?: AxisRange) => totalsOverTime(session(), columns, within),

  /** What regular expressions are matched with. */
  searchTexts: () => searchTexts(session()),
  /**
   * Sets what is looked for; `undefined` if the query is empty, or a newer one came meanwhile. `matched` says of each regular
   * expression of the query which of `searchTexts` it matches.
   */
  async search(query: string, matched: readonly Uint8Array[]): Promise<Found | undefined> {
    const isNewest = searches.begin();
    const made = await search(session(), query, matched, isNewest);
    if (isNewest()) matches = made?.matches;
    return made?.found;
  },
  nextMatch: (row: number | undefined, entry: number, step: 1 | -1) =>
    matches && nextMatch(session().lifetimes, matches, row, entry, step),
  matchNumber: (row: number) => matches && matchNumber(matches, row),
  hits: (skipped: number, count: number) => (matches ? hits(session(), matches, skipped, count) : []),

  ...MATCHING,
};

export type WorkerMethods = typeof methods;

serve(methods as never, self as unknown as WorkerScope);
