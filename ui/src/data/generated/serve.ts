/** Made by `make schemas` of the comments in crates/documents: change these. */

/**
 * Levels of confidence.
 */
export type Level = 'checked' | 'approximate' | 'unchecked';
/**
 * An engine that serves models.
 */
export type Engine = 'vllm' | 'sglang' | 'llama.cpp' | 'transformers';
/**
 * The kinds of refusals.
 */
export type RefusalKind =
  | 'weights_do_not_fit'
  | 'profile_does_not_fit'
  | 'no_cache'
  | 'context_too_long'
  | 'heads_do_not_divide'
  | 'context_beyond_model'
  | 'no_experts'
  | 'batch_too_small';

/**
 * Whether an engine can serve a model on a GPU: its budget, its cache, its concurrency. Made by `highwater estimate --serve ENGINE --format json`.
 */
export interface ServeDocument {
  /**
   * A log beside the forecast.
   */
  against?: ServeAgainst;
  /**
   * Taken where the question does not say.
   */
  assumed: string[];
  /**
   * Tokens of a block of the cache; null where the cache has no blocks.
   */
  block_tokens: number | null;
  /**
   * Blocks.
   */
  blocks: number | null;
  /**
   * The GPU: its name, or its memory.
   */
  card: string;
  /**
   * GPUs of one replica: tensor-parallel ranks times pipeline stages.
   */
  cards: number;
  /**
   * Changes that free memory, the largest first.
   */
  changes: Change[];
  /**
   * Requests of that length at once.
   */
  concurrency: number;
  /**
   * Requests of other lengths at once.
   */
  concurrency_at: ConcurrencyAt[];
  /**
   * The confidence in this result.
   */
  confidence: Confidence;
  /**
   * The engine.
   */
  engine: Engine;
  /**
   * Its release.
   */
  engine_version: string;
  /**
   * Each GPU of `--fit`.
   */
  fit?: Gpu[];
  /**
   * The name of the document.
   */
  format: 'highwater-serve';
  /**
   * Flags of a pasted command line that are not known to decide about memory.
   */
  ignored_flags: string[];
  /**
   * The cache of the rank with the least; negative if the budget is exceeded.
   */
  kv_cache_bytes: number;
  /**
   * The longest sequence that the cache holds.
   */
  longest_context_tokens: number;
  /**
   * The longest sequence.
   */
  max_model_len: number;
  /**
   * The model.
   */
  model: string;
  /**
   * The smallest GPUs that serve the requests of `--need`.
   */
  need?: Need;
  /**
   * Each rank's budget.
   */
  ranks: Rank[];
  /**
   * Why it does not.
   */
  refusal?: Refusal;
  /**
   * Whether the engine starts.
   */
  starts: boolean;
  /**
   * Bytes of the cache that one more token of a single sequence takes on a rank.
   */
  token_bytes: number;
  /**
   * Tokens of the cache, as this release prints them.
   */
  tokens: number;
  /**
   * The version of its shape.
   */
  version: 1;
}
/**
 * A log beside the forecast.
 */
export interface ServeAgainst {
  /**
   * The term that differs most, or a note that the log does not print it.
   */
  differs_most: string | null;
  /**
   * The name of the log.
   */
  log: string;
  /**
   * Each term that the log prints.
   */
  terms: ServeTerm[];
}
/**
 * A term of both.
 */
export interface ServeTerm {
  /**
   * By the forecast.
   */
  forecast: number;
  /**
   * Whether both are bytes; otherwise they are numbers.
   */
  is_bytes: boolean;
  /**
   * By the log.
   */
  printed: number;
  /**
   * Its name.
   */
  term: string;
}
/**
 * A change that frees memory.
 */
export interface Change {
  /**
   * Its price.
   */
  costs: string;
  /**
   * The flag.
   */
  flag: string;
  /**
   * Bytes that it frees on a rank, or that the cache shrinks by at the same tokens.
   */
  frees_bytes: number;
  /**
   * Whether the engine starts with it.
   */
  starts: boolean;
  /**
   * Tokens of the cache with it.
   */
  tokens: number;
  /**
   * Its value.
   */
  value: string;
}
/**
 * Requests of a length at once.
 */
export interface ConcurrencyAt {
  /**
   * Requests.
   */
  requests: number;
  /**
   * Tokens of a request.
   */
  tokens: number;
}
/**
 * The confidence in an answer.
 */
export interface Confidence {
  /**
   * The level.
   */
  level: Level;
  /**
   * Why.
   */
  reason: string;
}
/**
 * The model on a GPU.
 */
export interface Gpu {
  /**
   * The GPU: its name, or its memory.
   */
  card: string;
  /**
   * GPUs that are needed.
   */
  cards: number;
  /**
   * Requests of the longest length at once.
   */
  concurrency: number;
  /**
   * Bytes of the cache of the rank with the least; negative if the budget is exceeded.
   */
  kv_cache_bytes: number;
  /**
   * The longest sequence that the cache holds.
   */
  longest_context_tokens: number;
  /**
   * Whether the engine starts.
   */
  starts: boolean;
  /**
   * Tokens of the cache, as this release prints them.
   */
  tokens: number;
}
/**
 * The requests of `--need`, and the GPUs that serve them.
 */
export interface Need {
  /**
   * Requests at once.
   */
  requests: number;
  /**
   * Tokens of each.
   */
  tokens: number;
  /**
   * The ways to serve them, smallest GPUs first: one way for each number of GPUs.
   */
  ways: Way[];
}
/**
 * GPUs and flags that serve the requests.
 */
export interface Way {
  /**
   * The GPU.
   */
  card: string;
  /**
   * Their number.
   */
  cards: number;
  /**
   * Requests of that length at once.
   */
  concurrency: number;
  /**
   * The flags.
   */
  flags: string[];
  /**
   * All memory of these GPUs.
   */
  memory_bytes: number;
}
/**
 * A rank's budget.
 */
export interface Rank {
  /**
   * The cause of that peak.
   */
  activation_by: string;
  /**
   * The peak of the profile run above the weights, or the memory that the engine leaves for it.
   */
  activation_peak_bytes: number;
  /**
   * Memory that the engine may use.
   */
  budget_bytes: number;
  /**
   * CUDA graphs that count against the budget.
   */
  graph_bytes: number;
  /**
   * The cache; negative where the budget is exceeded.
   */
  kv_cache_bytes: number;
  /**
   * Memory that is not PyTorch's and counts against the budget.
   */
  non_torch_bytes: number;
  /**
   * The rank.
   */
  rank: number;
  /**
   * Its pipeline stage.
   */
  stage: number;
  /**
   * The GPU's memory.
   */
  total_bytes: number;
  /**
   * Weights as loaded.
   */
  weights_bytes: number;
}
/**
 * Why an engine does not start.
 */
export interface Refusal {
  /**
   * Its kind.
   */
  kind: RefusalKind;
  /**
   * The engine's statement, in our words.
   */
  sentence: string;
}
