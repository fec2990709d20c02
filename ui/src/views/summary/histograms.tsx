/** Histograms as tables with bars: by size, and by how long memory was held. */

import type {Histogram, Histograms} from '../../model/histograms';
import {binary, count, counted, duration} from '../../model/units';

/** The buckets in which there is something. */
export function filled(histograms: Pick<Histogram, 'upTo' | 'count'>[]): number[] {
  return histograms[0].upTo.map((_, i) => i).filter(bucket => histograms.some(({count}) => count[bucket] > 0));
}

function largest(column: Float64Array): number {
  return column.reduce((most, one) => Math.max(most, one), 1);
}

export function SizeHistogram({histograms}: {histograms: Histograms}) {
  const {sizes, sizesAtPeak} = histograms;
  const buckets = filled([sizes, sizesAtPeak]);
  if (buckets.length === 0) return null;
  return (
    <div class="card">
      <h2>Sizes</h2>
      <table class="data histogram">
        <caption class="hidden">Allocations by size</caption>
        <thead>
          <tr>
            <th scope="col" class="number">
              up to
            </th>
            <th scope="col" colspan={2} class="number">
              allocated over the recording
            </th>
            <th scope="col" colspan={2} class="number">
              live at the peak
            </th>
          </tr>
        </thead>
        <tbody>
          {buckets.map(bucket => (
            <tr key={bucket}>
              <th scope="row" class="number">
                {binary(sizes.upTo[bucket])}
              </th>
              <Bar histogram={sizes} bucket={bucket} />
              <Bar histogram={sizesAtPeak} bucket={bucket} />
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

export function LifetimeHistograms({histograms}: {histograms: Histograms}) {
  const {entries, times, unfreed} = histograms;
  return (
    <div class="card">
      <h2>
        Lifetimes
        <span class="faint">
          and {binary(unfreed.bytes)} in {counted(unfreed.count, 'block')} never freed
        </span>
      </h2>
      <div class="side-by-side">
        {times && <LifetimeTable histogram={times} heading="lasted up to" words={bound => duration(bound)} />}
        <LifetimeTable histogram={entries} heading="entries up to" words={bound => count(bound)} />
      </div>
    </div>
  );
}

function LifetimeTable(props: {histogram: Histogram; heading: string; words(bound: number): string}) {
  const {histogram, heading, words} = props;
  const buckets = filled([histogram]);
  if (buckets.length === 0) return null;
  return (
    <table class="data histogram">
      <caption class="hidden">Allocations by lifetime</caption>
      <thead>
        <tr>
          <th scope="col" class="number">
            {heading}
          </th>
          <th scope="col" colspan={2} class="number">
            allocated
          </th>
        </tr>
      </thead>
      <tbody>
        {buckets.map(bucket => (
          <tr key={bucket}>
            <th scope="row" class="number">
              {words(histogram.upTo[bucket])}
            </th>
            <Bar histogram={histogram} bucket={bucket} />
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function Bar({histogram, bucket}: {histogram: Histogram; bucket: number}) {
  const bytes = histogram.bytes[bucket];
  const rows = histogram.count[bucket];
  return (
    <>
      <td class="number bar" style={{'--share': `${(bytes / largest(histogram.bytes)) * 100}%`}}>
        {bytes > 0 ? binary(bytes) : ''}
      </td>
      <td class="number faint">{rows > 0 ? count(rows) : ''}</td>
    </>
  );
}
