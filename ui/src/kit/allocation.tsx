/** An allocation in words. */

import {shortFrame} from '../model/frames';
import type {Frame} from '../model/stacks';
import {binary, count, duration, ordinal} from '../model/units';
import type {RowDetails} from '../worker/details';

/** Frames shown before the rest is counted. */
const FRAMES_MAX = 6;

/** The lines of a card. */
export function AllocationLines({details}: {details: RowDetails}) {
  const own = interesting(details.frames).slice(0, FRAMES_MAX);
  const hidden = details.frames.length - own.length;
  return (
    <>
      <div>
        <b>{binary(details.sizeBytes)}</b>
        {details.requestedBytes !== details.sizeBytes && (
          <span class="faint"> for {binary(details.requestedBytes)} requested</span>
        )}
        {details.category && <span class="chip">{details.category}</span>}
        {details.at.awaitsFree && <span class="chip">awaiting free</span>}
      </div>
      <div class="faint">
        {lifeOf(details)} · {rankOf(details)}
      </div>
      <ol class="frames">
        {own.map((frame, i) => (
          <li key={i}>{shortFrame(frame)}</li>
        ))}
        {own.length === 0 && <li>{details.site}</li>}
        {hidden > 0 && <li class="faint">… {count(hidden)} more: click to pin</li>}
      </ol>
    </>
  );
}

/** `6th largest of 361`. */
export function rankOf({at: {rank, of}}: RowDetails): string {
  return rank === 1 ? `the largest of ${count(of)}` : `${ordinal(rank)} largest of ${count(of)}`;
}

/** From which entry to which, and how long. */
export function lifeOf(details: RowDetails): string {
  const from = details.allocEntry === undefined ? 'before the recording' : `entry ${count(details.allocEntry)}`;
  const to = details.freeEntry === undefined ? 'still active at the dump' : `freed at ${count(details.freeEntry)}`;
  const isTimed = details.allocUs !== undefined && details.freeUs !== undefined;
  return `${from}, ${to}${isTimed ? `, lived ${duration(details.freeUs! - details.allocUs!)}` : ''}`;
}

/** The user's own frames; all but the unwinding where there is none. */
export function interesting(frames: readonly Frame[]): Frame[] {
  const own = frames.filter(({owner}) => owner === 'user');
  return own.length > 0 ? own : frames.filter(({owner}) => owner !== 'unwinding');
}
