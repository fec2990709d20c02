/** Serving: the parts of an engine's budget, and the curve of requests over their length. Places are shares, from 0 to 1. */

import type {Rank, ServeDocument} from '../data/generated/serve';
import type {Part} from './bar';
import type {Engine} from './document';
import {stops} from './scale';

/** The lengths of the curve. */
export const LENGTHS: readonly number[] = stops(256, 1 << 20);

/** The engine of a question: `vllm@0.11.0` is vLLM. */
export function engineOf(engines: readonly Engine[], asked: string): Engine | undefined {
  const name = asked.split('@')[0];
  return engines.find(engine => engine.name === name);
}

/** The rank that has the least for its cache. */
export function leastRank({ranks}: ServeDocument): Rank | undefined {
  return ranks.toSorted((a, b) => a.kv_cache_bytes - b.kv_cache_bytes)[0];
}

/** Bytes at the right end of the bar: the GPU, or all that is needed where that is more. */
export function budgetEnd(rank: Rank): number {
  return Math.max(rank.total_bytes, neededBytes(rank), 1);
}

/** What the engine needs before there is a cache. */
function neededBytes(rank: Rank): number {
  return rank.weights_bytes + rank.activation_peak_bytes + rank.non_torch_bytes + rank.graph_bytes;
}

/** The parts of a rank from the left. What lies beyond the engine's share comes last. */
export function budgetParts(rank: Rank): Part[] {
  const cache = Math.max(0, rank.kv_cache_bytes);
  const used = neededBytes(rank) + cache;
  const parts: [string, string, string, number][] = [
    ['parameter', 'weights', 'as the engine loads them', rank.weights_bytes],
    ['activation', 'activations', rank.activation_by, rank.activation_peak_bytes],
    ['context', 'outside PyTorch', 'kernels and communication', rank.non_torch_bytes],
    ['workspace', 'CUDA graphs', 'the part that counts against the budget', rank.graph_bytes],
    ['cache', 'cache', 'keys, values and states of requests', cache],
    ['unused', 'not used', 'beyond the share that the engine may use', rank.total_bytes - used],
  ];
  const end = budgetEnd(rank);
  let sum = 0;
  return parts
    .filter(([, , , bytes]) => bytes > 0)
    .map(([id, label, hint, bytes]) => {
      const from = sum / end;
      sum += bytes;
      return {id, label, hint, bytes, from, to: sum / end};
    });
}

/** A length, how many requests of it there are at once, and where that is. */
export interface Point {
  readonly tokens: number;
  readonly requests: number;
  readonly x: number;
  readonly y: number;
}

/** A mark on an axis. */
export interface Tick {
  readonly at: number;
  readonly value: number;
}

export interface Curve {
  readonly points: readonly Point[];
  /** Where so many requests of a length are; `null` beyond the axes. */
  readonly placeOf: (tokens: number, requests: number) => Point | null;
  readonly xTicks: readonly Tick[];
  readonly yTicks: readonly Tick[];
}

/** The curve as far as a request is served at all, on logarithmic axes; `y` is from below. Nothing where there are not two points. */
export function curveOf(document: ServeDocument): Curve | null {
  const served = document.concurrency_at
    .filter(({tokens, requests}) => requests >= 1 && tokens <= document.longest_context_tokens)
    .toSorted((a, b) => a.tokens - b.tokens);
  if (served.length < 2) return null;
  const [least, most] = [served[0].tokens, served[served.length - 1].tokens];
  const top = Math.max(...served.map(({requests}) => requests), 2);
  const xOf = (tokens: number) => Math.log(tokens / least) / Math.log(most / least);
  const yOf = (requests: number) => Math.log(requests) / Math.log(top);
  const isWithin = (share: number) => share >= 0 && share <= 1;
  return {
    points: served.map(({tokens, requests}) => ({tokens, requests, x: xOf(tokens), y: yOf(requests)})),
    placeOf: (tokens, requests) => {
      const point = {tokens, requests, x: xOf(tokens), y: yOf(requests)};
      return isWithin(point.x) && isWithin(point.y) ? point : null;
    },
    xTicks: powers(least, most, 4).map(value => ({value, at: xOf(value)})),
    yTicks: powers(1, top, 10).map(value => ({value, at: yOf(value)})),
  };
}

/** Numbers from the least to the most, each so many times the one before. */
function powers(least: number, most: number, times: number): number[] {
  const all: number[] = [];
  for (let value = least; value <= most; value *= times) all.push(value);
  return all;
}

/** The point that is nearest to a place on the axis of lengths. */
export function pointAt({points}: Curve, x: number): Point {
  return points.reduce((best, point) => (Math.abs(point.x - x) < Math.abs(best.x - x) ? point : best));
}

/** `4k`, `1M`: lengths as people say them. */
export function lengthOf(tokens: number): string {
  if (tokens >= 1 << 20 && tokens % (1 << 20) === 0) return `${tokens / (1 << 20)}M`;
  return tokens >= 1024 && tokens % 1024 === 0 ? `${tokens / 1024}k` : String(tokens);
}

/** Requests as they are shown: hundredths below ten, tenths below a hundred, whole above. */
export function requestsOf(requests: number): string {
  const digits = requests < 10 ? 2 : requests < 100 ? 1 : 0;
  return requests.toFixed(digits).replace(/\B(?=(\d{3})+(?!\d))/g, requests < 100 ? '' : ',');
}
