import {describe, expect, it} from 'vitest';
import type {ServeDocument} from '../data/generated/serve';
import {placeOf, textOf} from './address';
import {commandOf, questionOf} from './inputs';
import {budgetParts, curveOf, leastRank, lengthOf, pointAt, requestsOf} from './serving';

const rank = {
  rank: 0,
  stage: 0,
  total_bytes: 1000,
  budget_bytes: 900,
  weights_bytes: 500,
  activation_peak_bytes: 100,
  activation_by: 'sampler',
  non_torch_bytes: 20,
  graph_bytes: 0,
  kv_cache_bytes: 280,
};

function documentOf(changes: Partial<ServeDocument>): ServeDocument {
  return {ranks: [rank], concurrency_at: [], longest_context_tokens: 4096, ...changes} as ServeDocument;
}

describe('the budget', () => {
  it('adds up to the GPU', () => {
    const parts = budgetParts(rank);
    expect(parts.map(({label, bytes}) => [label, bytes])).toEqual([
      ['weights', 500],
      ['activations', 100],
      ['outside PyTorch', 20],
      ['cache', 280],
      ['not used', 100],
    ]);
    expect(parts.at(-1)?.to).toBe(1);
  });

  it('goes beyond the GPU where there is no room for a cache', () => {
    const parts = budgetParts({...rank, weights_bytes: 1200, kv_cache_bytes: -420});
    expect(parts.at(-1)?.to).toBeLessThanOrEqual(1);
    expect(parts.map(({id}) => id)).toEqual(['parameter', 'activation', 'context']);
  });

  it('is that of the rank with the least', () => {
    expect(leastRank(documentOf({ranks: [rank, {...rank, rank: 1, kv_cache_bytes: 10}]}))?.rank).toBe(1);
    expect(leastRank(documentOf({ranks: []}))).toBeUndefined();
  });
});

describe('the curve', () => {
  const concurrency_at = [256, 1024, 4096, 16384].map(tokens => ({tokens, requests: 8192 / tokens}));

  it('ends where no request is served', () => {
    const curve = curveOf(documentOf({concurrency_at}));
    expect(curve?.points.map(({tokens, requests}) => [tokens, requests])).toEqual([
      [256, 32],
      [1024, 8],
      [4096, 2],
    ]);
    expect(curve?.points[0].y).toBe(1);
    expect(curve && pointAt(curve, 0.4).tokens).toBe(1024);
    expect(curve?.placeOf(1024, 8)?.x).toBeCloseTo(0.5);
    expect(curve?.placeOf(8192, 1)).toBeNull();
    expect(curveOf(documentOf({concurrency_at: concurrency_at.slice(3)}))).toBeNull();
  });

  it('has lengths and requests as people say them', () => {
    expect([256, 1024, 131072, 1 << 20, 1500].map(lengthOf)).toEqual(['256', '1k', '128k', '1M', '1500']);
    expect([1.234, 26.31, 1234.5].map(requestsOf)).toEqual(['1.23', '26.3', '1,235']);
  });
});

describe('a question about serving', () => {
  const serving = {engine: 'vllm@0.11.0', flags: {'max-model-len': '8192', 'enforce-eager': 'true'}};

  it('is in the address, apart from the options of training', () => {
    const place = {model: {named: 'gpt2'}, words: {batch: '4', gpu: 'l4'}, serving, theme: 'system'} as const;
    expect(placeOf(textOf(place))).toEqual(place);
    expect(placeOf('model=gpt2').serving).toBeUndefined();
  });

  it('has the GPU and the flags of the engine, on the command line too', () => {
    const words = {batch: '4', gpu: 'l4'};
    expect(JSON.parse(questionOf({named: 'gpt2'}, words, serving, [256]))).toEqual({
      model: 'gpt2',
      'max-model-len': '8192',
      'enforce-eager': 'true',
      gpu: 'l4',
      serve: 'vllm@0.11.0',
      lengths: [256],
    });
    expect(commandOf({named: 'gpt2'}, words, serving)).toBe(
      'highwater estimate gpt2 --serve vllm@0.11.0 --gpu l4 --max-model-len 8192 --enforce-eager',
    );
  });
});
