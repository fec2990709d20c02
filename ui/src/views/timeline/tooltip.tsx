/** What is said of the allocation under the pointer. */

import {describeFrame, type Frame} from '../../model/stacks';
import {binary, count, duration} from '../../model/units';
import type {RowDetails} from '../../worker/details';
import type {Hit} from './chart';

/** Where, and of what. */
export interface TooltipState {
  /** CSS pixels from the window's corner. */
  readonly x: number;
  readonly y: number;
  readonly hit: Hit;
  /** The iteration, phase and scopes of the entry. */
  readonly names: string[];
  readonly details?: RowDetails;
}

/** Frames shown before the rest is counted. */
const FRAMES_MAX = 6;

export function Tooltip({x, y, hit, names, details}: TooltipState) {
  const isRight = x > innerWidth - 460;
  const isLow = y > innerHeight - 240;
  const style = {
    [isRight ? 'right' : 'left']: `${isRight ? innerWidth - x + 14 : x + 14}px`,
    [isLow ? 'bottom' : 'top']: `${isLow ? innerHeight - y + 14 : y + 14}px`,
  };
  return (
    <div class="tooltip" style={style} role="status">
      {details ? <Lines details={details} /> : hit.row === undefined ? <div>nothing active here</div> : null}
      {hit.isShared && <div class="faint">several allocations share this pixel: zoom in to tell them apart</div>}
      <div class="faint">
        after entry {count(hit.entry)}
        {names.length > 0 && ` · ${names.join(' › ')}`}
      </div>
    </div>
  );
}

function Lines({details}: {details: RowDetails}) {
  const shown = interesting(details.frames);
  return (
    <>
      <div>
        <b>{binary(details.sizeBytes)}</b>
        {details.requestedBytes !== details.sizeBytes && (
          <span class="faint"> of {binary(details.requestedBytes)} asked for</span>
        )}
        {details.category && <span class="chip">{details.category}</span>}
        {details.at.awaitsFree && <span class="chip">awaiting free</span>}
      </div>
      <div class="faint">
        {lifeOf(details)} · {details.at.rank}
        {ordinal(details.at.rank)} largest of {count(details.at.of)}
      </div>
      <ol class="frames">
        {shown.slice(0, FRAMES_MAX).map((frame, i) => (
          <li key={i}>{describeFrame(frame)}</li>
        ))}
        {shown.length === 0 && <li>{details.site}</li>}
        {details.frames.length > Math.min(shown.length, FRAMES_MAX) && (
          <li class="faint">… {details.frames.length - Math.min(shown.length, FRAMES_MAX)} more: click to pin</li>
        )}
      </ol>
    </>
  );
}

/** From which entry to which, and how long. */
export function lifeOf(details: RowDetails): string {
  const from = details.allocEntry === undefined ? 'before the recording' : `entry ${count(details.allocEntry)}`;
  const to = details.freeEntry === undefined ? 'still active at the dump' : `freed at ${count(details.freeEntry)}`;
  const known = details.allocUs !== undefined && details.freeUs !== undefined;
  return `${from}, ${to}${known ? `, lived ${duration(details.freeUs! - details.allocUs!)}` : ''}`;
}

/** The user's own frames; all but the unwinding where there is none. */
export function interesting(frames: readonly Frame[]): Frame[] {
  const own = frames.filter(({owner}) => owner === 'user');
  return own.length > 0 ? own : frames.filter(({owner}) => owner !== 'unwinding');
}

function ordinal(rank: number): string {
  const tens = rank % 100;
  if (tens >= 11 && tens <= 13) return 'th';
  return ['th', 'st', 'nd', 'rd'][rank % 10] ?? 'th';
}
