/** What every stacked picture has in common: asked for, painted, handed over. */

import {Transferred} from '../data/rpc';
import {type Paint, paintStacked} from '../draw/paint';
import type {Shade} from '../draw/palette';
import {type AxisKind, entriesOfColumn} from '../model/axis';
import {OutsideCursor, onCard} from '../model/outside';
import {Spare} from '../model/spare';
import type {StackedIds, StackedWindow} from '../model/stacked-picture';
import type {Session} from './session';

/** What to draw, and how. */
export interface StackedRequest extends StackedWindow {
  readonly axis: AxisKind;
  readonly shade: Shade;
  /** Of a picture that is done with. */
  readonly spare?: Uint32Array;
}

/** The picture. */
export interface StackedPicture extends StackedIds {
  readonly window: StackedWindow;
  readonly bitmap: ImageBitmap;
  /** For each column, the most that was reserved, in bytes. */
  readonly reservedBytes: Float64Array;
  /** For each column, the bytes of each owner where most is outside PyTorch; empty where the driver was not recorded. */
  readonly outsideBytes: Float64Array;
}

/** Paints a picture; everything in it is handed over. */
export async function finish(
  session: Session,
  request: StackedRequest,
  picture: StackedIds,
  paint: Paint,
): Promise<Transferred<StackedPicture>> {
  const {width, height, x, lowBytes, highBytes} = request;
  const pixels = pixelsOf(width * height);
  paintStacked(picture, request, paint, pixels);
  const bitmap = await bitmapOf(pixels, width, height);
  const [reservedBytes, outsideBytes] = await Promise.all([reservedOf(session, request), outsideOf(session, request)]);
  const value = {window: {width, height, x, lowBytes, highBytes}, bitmap, reservedBytes, outsideBytes, ...picture};
  return new Transferred(value, [
    bitmap,
    reservedBytes.buffer,
    outsideBytes.buffer,
    picture.ids.buffer,
    picture.entries.buffer,
    picture.highBytes.buffer,
    picture.lowBytes.buffer,
  ]);
}

const SPARE_PIXELS = new Spare();

/** Room for the pixels of one picture, which has it alone until `bitmapOf` takes it back: pictures are made side by side. */
export function pixelsOf(count: number): Uint32Array<ArrayBuffer> {
  return SPARE_PIXELS.u32(count);
}

/** A bitmap with a copy of the pixels; their room is the next picture's. */
export async function bitmapOf(pixels: Uint32Array<ArrayBuffer>, width: number, height: number): Promise<ImageBitmap> {
  const bytes = new Uint8ClampedArray(pixels.buffer, pixels.byteOffset, width * height * 4);
  const bitmap = await createImageBitmap(new ImageData(bytes, width, height));
  SPARE_PIXELS.give(pixels);
  return bitmap;
}

/** For each column, the most that was reserved, in bytes. */
async function reservedOf(session: Session, {width, x, axis: kind}: StackedRequest): Promise<Float64Array> {
  const axis = await session.axis(kind);
  const {index} = await session.pieces();
  const {entries, unitBytes} = session.lifetimes;
  const reserved = new Float64Array(width);
  const perColumn = (x.to - x.from) / width;
  for (let column = 0; column < width; column++) {
    const from = x.from + column * perColumn;
    if (from + perColumn <= axis.range.from || from >= axis.range.to) continue;
    const covered = entriesOfColumn(axis, entries, from, from + perColumn);
    reserved[column] = index.highestIn(covered.from, covered.to).total * unitBytes;
  }
  return reserved;
}

/** For each column, the bytes of each owner where most is outside PyTorch. */
async function outsideOf(session: Session, {width, x, axis: kind}: StackedRequest): Promise<Float64Array<ArrayBuffer>> {
  const outside = await session.outside();
  if (!outside) return new Float64Array();
  const axis = await session.axis(kind);
  const {entries} = session.lifetimes;
  const bytes = new Float64Array(width * outside.owners);
  const perColumn = (x.to - x.from) / width;
  const cursor = new OutsideCursor(outside);
  for (let column = 0; column < width; column++) {
    const from = x.from + column * perColumn;
    if (from + perColumn <= axis.range.from || from >= axis.range.to) continue;
    const covered = entriesOfColumn(axis, entries, from, from + perColumn);
    cursor.look(covered.from, covered.to);
    bytes.set(cursor.highest, column * outside.owners);
  }
  return bytes;
}

/** The totals of a curve: no bands. */
export interface Curve {
  readonly highBytes: Float64Array;
  readonly reservedBytes: Float64Array;
  /** The most of the GPU: with memory outside PyTorch, where the driver was recorded. */
  readonly cardBytes: Float64Array;
}

/** For each of `width` columns over the whole recording, the largest total and the most that was reserved, in bytes. */
export async function curve(session: Session, kind: AxisKind, width: number): Promise<Curve> {
  const axis = await session.axis(kind);
  const {entries, unitBytes} = session.lifetimes;
  const highBytes = new Float64Array(width);
  const perColumn = (axis.range.to - axis.range.from) / width;
  for (let column = 0; column < width; column++) {
    const from = axis.range.from + column * perColumn;
    const covered = entriesOfColumn(axis, entries, from, from + perColumn);
    highBytes[column] = session.index.highestIn(covered.from, covered.to).total * unitBytes;
  }
  const window = {width, height: 1, x: axis.range, lowBytes: 0, highBytes: 1, axis: kind, shade: 'light' as const};
  const [reservedBytes, outsideBytes] = await Promise.all([reservedOf(session, window), outsideOf(session, window)]);
  return {highBytes, reservedBytes, cardBytes: onCard(reservedBytes, outsideBytes)};
}
