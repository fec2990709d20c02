/** Pictures of the timeline. */

import type {Transferred} from '../data/rpc';
import {BACKGROUND, pixelOf} from '../draw/palette';
import type {Grouping} from '../model/groups';
import {drawTimeline} from '../model/timeline-picture';
import {colouring, type Emphasis, emphasised, hiddenKeys} from './grouping';
import {finish, type StackedPicture, type StackedRequest} from './pictures';
import type {Session} from './session';

/** What to draw, and how. */
export interface TimelineRequest extends StackedRequest {
  readonly colourBy: Grouping;
  /** The lifetimes that a search found stand out. */
  readonly highlightsSearch: boolean;
  readonly emphasis: Emphasis;
}

export async function timeline(
  session: Session,
  request: TimelineRequest,
  matches: Uint8Array | undefined,
): Promise<Transferred<StackedPicture>> {
  const [axis, pending, colours] = await Promise.all([
    session.axis(request.axis),
    session.pending(),
    colouring(session, request.colourBy),
  ]);
  const hatched = pending.requestedAt.size > 0 ? pending : undefined;
  const isHidden = hiddenKeys(colours, request.emphasis);
  const hidden = isHidden && {key: colours.rows.key, isHidden};
  const picture = drawTimeline(session.index, axis, request, {pending: hatched, hidden, spare: request.spare});
  const background = pixelOf(BACKGROUND[request.shade]);
  return finish(session, request, picture, {
    // What is hidden has left the stack.
    colours: emphasised(colours, {...request.emphasis, hidden: []}, background),
    background,
    idle: 'hatched',
    before: session.lifetimes.before,
    matches: request.highlightsSearch ? matches : undefined,
  });
}
