/** Pictures of the timeline. */

import {paintTimeline} from '../draw/paint';
import {BACKGROUND, pixelOf, type Shade} from '../draw/palette';
import {type AxisKind, entriesOfColumn} from '../model/axis';
import type {Grouping} from '../model/groups';
import {drawTimeline, type TimelineIds, type TimelineWindow} from '../model/timeline-picture';
import {colouring} from './grouping';
import {Transferred} from './rpc';
import type {Session} from './session';

/** What to draw, and how. */
export interface TimelineRequest extends TimelineWindow {
  readonly axis: AxisKind;
  readonly colourBy: Grouping;
  readonly shade: Shade;
  /** The lifetimes that a search found stand out. */
  readonly highlightsSearch: boolean;
}

/** The picture. */
export interface TimelinePicture extends TimelineIds {
  readonly window: TimelineWindow;
  readonly bitmap: ImageBitmap;
  /** For each column, the most that was reserved, in bytes. */
  readonly reservedBytes: Float64Array;
}

/** Draws and paints; everything in it is handed over. */
export async function timeline(
  session: Session,
  request: TimelineRequest,
  matches: Uint8Array | undefined,
): Promise<Transferred<TimelinePicture>> {
  const {width, height, x, lowBytes, highBytes} = request;
  const window = {width, height, x, lowBytes, highBytes};
  const [axis, pending, colours, reserved] = await Promise.all([
    session.axis(request.axis),
    session.pending(),
    colouring(session, request.colourBy),
    session.reserved(),
  ]);
  const picture = drawTimeline(session.index, axis, window, pending.requestedAt.size > 0 ? pending : undefined);
  const pixels = new Uint32Array(width * height);
  const paint = {
    colours: colours.rows,
    background: pixelOf(BACKGROUND[request.shade]),
    before: session.lifetimes.before,
    matches: request.highlightsSearch ? matches : undefined,
  };
  paintTimeline(picture, width, height, lowBytes, (highBytes - lowBytes) / height, paint, pixels);
  const reservedBytes = new Float64Array(width);
  const perColumn = (x.to - x.from) / width;
  for (let column = 0; column < width; column++) {
    const from = x.from + column * perColumn;
    const covered = entriesOfColumn(axis, session.lifetimes.entries, from, from + perColumn);
    const isOutside = from + perColumn <= axis.range.from || from >= axis.range.to;
    reservedBytes[column] = isOutside ? 0 : reserved.maxIn(covered.from, covered.to);
  }
  const bitmap = await createImageBitmap(new ImageData(new Uint8ClampedArray(pixels.buffer), width, height));
  const value = {window, bitmap, reservedBytes, ...picture};
  return new Transferred(value, [
    bitmap,
    reservedBytes.buffer,
    picture.ids.buffer,
    picture.entries.buffer,
    picture.highBytes.buffer,
    picture.lowBytes.buffer,
  ]);
}
