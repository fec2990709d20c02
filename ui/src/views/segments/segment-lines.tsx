/** A segment in words. */

import {address, binary, counted, percent} from '../../model/units';
import type {SegmentDetails} from '../../worker/segments';

export function SegmentLines({details, isFree}: {details: SegmentDetails; isFree: boolean}) {
  const {mappedBytes, usedBytes} = details;
  return (
    <>
      <div>
        segment of <b>{binary(mappedBytes)}</b> at {address(details.address)}
        {isFree && <span class="chip">its free part</span>}
      </div>
      <div>
        {binary(usedBytes)} in {counted(details.blocks, 'active block')}, {binary(mappedBytes - usedBytes)} free (
        {percent((mappedBytes - usedBytes) / Math.max(1, mappedBytes))})
      </div>
      <div class="faint">{details.label}</div>
      <div class="faint">reserved for {details.site}</div>
    </>
  );
}
