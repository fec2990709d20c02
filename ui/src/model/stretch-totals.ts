/** What a stretch of entries allocated and freed, by call site. */

import type {Column} from '../data/section';
import type {Lifetimes} from './lifetimes';
import type {Stretch} from './stack-weights';

/** Sums of one call site over a stretch. */
export interface SiteTotals {
  readonly site: number;
  readonly allocatedBytes: number;
  readonly allocations: number;
  readonly freedBytes: number;
  readonly frees: number;
}

/** The call sites of what a stretch allocated or freed, those that allocated most first. */
export function siteTotalsIn(
  {start, end, size, rows, before, unitBytes}: Lifetimes,
  stack: Column,
  siteOfStack: Column,
  siteCount: number,
  {from, to}: Stretch,
): SiteTotals[] {
  const [allocated, freed] = [new Float64Array(siteCount), new Float64Array(siteCount)];
  const [allocations, frees] = [new Uint32Array(siteCount), new Uint32Array(siteCount)];
  for (let row = 0; row < rows && start[row] < to; row++) {
    const isFreed = end[row] >= from && end[row] < to;
    const isAllocated = row >= before && start[row] >= from;
    if (!isFreed && !isAllocated) continue;
    const site = siteOfStack[stack[row]];
    if (isAllocated) {
      allocated[site] += size[row];
      allocations[site]++;
    }
    if (isFreed) {
      freed[site] += size[row];
      frees[site]++;
    }
  }
  const sites: SiteTotals[] = [];
  for (let site = 0; site < siteCount; site++) {
    if (allocations[site] + frees[site] === 0) continue;
    sites.push({
      site,
      allocatedBytes: allocated[site] * unitBytes,
      allocations: allocations[site],
      freedBytes: freed[site] * unitBytes,
      frees: frees[site],
    });
  }
  return sites.sort((a, b) => b.allocatedBytes - a.allocatedBytes || b.freedBytes - a.freedBytes || a.site - b.site);
}
