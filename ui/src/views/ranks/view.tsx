/** All recordings as small pictures on one byte scale. */

import {batch, useSignal} from '@preact/signals';
import {useEffect, useMemo} from 'preact/hooks';
import type {Curves} from '../../data/curves';
import type {Ranks} from '../../data/generated/ranks';
import {Prose} from '../../kit/prose';
import {type Alignment, highestOf} from '../../model/alignment';
import {type HeatDevice, highestOfRow, meanOf, measuresOf, measureWords} from '../../model/heat';
import {shortNames} from '../../model/short-names';
import {binary, counted, percent} from '../../model/units';
import {dataSource, files, forgetPlace, type Opened} from '../../state/session';
import * as store from '../../state/store';
import {useArrivals} from './arrivals';
import {HeatMap, keyOf} from './heat-map';
import {stretch} from './linked';
import {FORMS, median, ORDERS, ordered, outlierOf, type Rank} from './overview';
import {placeOfEntry, Tile} from './tile';

/** So few have room for larger pictures. */
const FEW = 8;

export function RanksView({device}: {device: Opened}) {
  const ready = files.value.filter(({state}) => state === 'ready').map(({id}) => id);
  const heads = useArrivals<Curves>(ready, (files, signal) => dataSource().peaks(files, signal));
  const order = store.viewOption('ranks.order', ORDERS);
  const names = shortNames(files.value.map(({name}) => name));
  const key = names.join(' ');
  const ranks = useMemo(() => {
    const all: Rank[] = [];
    files.value.forEach(({id}, i) => {
      for (const curve of heads.get(id)?.devices ?? []) all.push({file: id, name: names[i], curve});
    });
    return all;
  }, [heads, key]);
  const form = store.viewOption('ranks.form', FORMS);
  const isHeat = form === 'heat map';
  const rows = useArrivals(isHeat ? ready : [], (files, signal) => dataSource().heats(files, signal));
  const heats = useMemo(() => {
    const all = new Map<string, HeatDevice>();
    for (const [file, {devices}] of rows) for (const device of devices) all.set(keyOf(file, device.device), device);
    return all;
  }, [rows]);
  const measures = useMemo(() => measuresOf([...heats.values()]), [heats]);
  const measure = store.viewOption('ranks.measure', measures.length > 0 ? measures : ['reserved']);
  const shown = useMemo(() => {
    if (!isHeat || heats.size === 0) return ordered(ranks, order);
    const heat = (rank: Rank) => heats.get(keyOf(rank.file, rank.curve.device));
    const [peak, mean] = [highestOfRow, meanOf].map(of => (rank: Rank) => of(heat(rank), measure));
    return ordered(ranks, order, peak, mean);
  }, [ranks, order, isHeat, heats, measure]);
  const said = useSaid(ranks.length);
  const curves = ranks.map(({curve}) => curve);
  const alignment: Alignment = curves.every(({iterations}) => iterations.length > 0) ? 'iteration' : 'entry';
  const ends = curves.flatMap(curve => [0, curve.entries].map(entry => placeOfEntry(curve, alignment, entry)));
  const x = {from: Math.min(0, ...ends), to: Math.max(1, ...ends)};
  const outlier = outlierOf(ranks);
  const odd = useMemo(
    () => said && new Set(said.ranks.filter(one => one.is_outlier).map(one => keyOf(one.file, one.device))),
    [said],
  );
  const isOdd = ({file, curve}: Rank) => {
    const name = files.value.find(({id}) => id === file)?.name ?? '';
    return odd
      ? odd.has(keyOf(name, curve.device))
      : file === outlier?.rank.file && curve.device === outlier.rank.curve.device;
  };
  const medianBytes = median(curves.map(({peak}) => peak.bytes));
  const waiting = files.value.filter(({id, state}) => state !== 'failed' && !heads.has(id)).length;
  const open = (rank: Rank, entry: number | null) => {
    batch(() => {
      if (rank.file !== store.file.value || rank.curve.device !== device.device.device) {
        forgetPlace();
        store.xRange.value = null;
        store.yRange.value = null;
        store.file.value = rank.file;
        store.device.value = rank.curve.device;
      }
      store.cursor.value = entry ?? rank.curve.peak.entry;
      store.view.value = 'timeline';
    });
  };
  return (
    <section class="view ranks" aria-label="Ranks">
      <div class="card toolbar-card">
        <span role="status">
          {said ? <Prose text={said.verdict} /> : <Verdict outlier={outlier} ranks={ranks} />}
          {waiting > 0 && <span class="faint"> {counted(waiting, 'file is', 'files are')} still being read …</span>}
        </span>
        <label>
          as{' '}
          <select
            aria-label="Show as"
            value={form}
            onChange={event => store.setViewOption('ranks.form', event.currentTarget.value)}
          >
            {FORMS.map(one => (
              <option key={one}>{one}</option>
            ))}
          </select>
        </label>
        {isHeat && measures.length > 0 && (
          <label>
            coloured by{' '}
            <select
              aria-label="Colour by"
              value={measure}
              onChange={event => store.setViewOption('ranks.measure', event.currentTarget.value)}
            >
              {measures.map(one => (
                <option key={one} value={one}>
                  {measureWords(one)}
                </option>
              ))}
            </select>
          </label>
        )}
        <label>
          sorted by{' '}
          <select
            aria-label="Sort by"
            value={order}
            onChange={event => store.setViewOption('ranks.order', event.currentTarget.value)}
          >
            {ORDERS.map(one => (
              <option key={one}>{one}</option>
            ))}
          </select>
        </label>
        <span class="faint">
          one scale, 0 to {binary(highestOf(curves))}; {alignment === 'iteration' ? 'by iteration' : 'by entry'}; Shift
          ← and Shift → step through the files
        </span>
      </div>
      {isHeat && (
        <HeatMap
          ranks={shown}
          alignment={alignment}
          whole={x}
          heats={heats}
          measure={measure}
          open={(rank, entry) => open(rank, entry)}
        />
      )}
      <div class={shown.length <= FEW ? 'rank-grid few' : 'rank-grid'} hidden={isHeat}>
        {!isHeat &&
          shown.map(rank => (
            <Tile
              key={keyOf(rank.file, rank.curve.device)}
              rank={rank}
              alignment={alignment}
              x={stretch.value ?? x}
              whole={x}
              highBytes={highestOf(curves) * 1.06}
              medianBytes={medianBytes}
              isOutlier={isOdd(rank)}
              isOpen={rank.file === store.file.value && rank.curve.device === device.device.device}
              showsDevice={(heads.get(rank.file)?.devices.length ?? 0) > 1}
              open={open}
            />
          ))}
      </div>
    </section>
  );
}

/** What `highwater ranks` says of all files, once they are read. */
function useSaid(read: number): Ranks | undefined {
  const said = useSignal<Ranks | undefined>(undefined);
  const isReading = files.value.some(({state}) => state === 'reading');
  useEffect(() => {
    said.value = undefined;
    if (isReading || read < 2 || !dataSource().isServed) return;
    const abort = new AbortController();
    dataSource()
      .ranks(abort.signal)
      .then(document => {
        said.value = document;
      })
      // The pictures say what they can.
      .catch(() => {});
    return () => abort.abort();
  }, [read, isReading]);
  return said.value;
}

/** What stands out, in a sentence. */
function Verdict({outlier, ranks}: {outlier: ReturnType<typeof outlierOf>; ranks: readonly Rank[]}) {
  const failed = ranks.filter(({curve}) => curve.ooms.length > 0);
  return (
    <>
      {outlier ? (
        <>
          <b>{outlier.rank.name}</b> peaks at <b>{binary(outlier.rank.curve.peak.bytes)}</b>,{' '}
          {binary(Math.abs(outlier.differenceBytes))} (
          {percent(Math.abs(outlier.differenceBytes) / Math.max(1, outlier.medianBytes))}){' '}
          {outlier.differenceBytes > 0 ? 'above' : 'below'} the median of {binary(outlier.medianBytes)}.
        </>
      ) : (
        ranks.length >= 3 && <>All peaks are within 2 % of the median.</>
      )}
      {failed.length > 0 && (
        <> {failed.length === 1 ? failed[0].name : `${failed.length} of ${ranks.length}`} ran out of memory.</>
      )}
    </>
  );
}
