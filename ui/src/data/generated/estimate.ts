/** Made by `make schemas` of the comments in crates/documents: change these. */

/**
 * What a block is for, by the words of the report.
 */
export type Category =
  'parameter' | 'gradient' | 'optimizer_state' | 'activation' | 'cache' | 'input' | 'temporary' | 'workspace';

/**
 * What a model needs, worked out from its configuration. Made by `highwater estimate --format json`.
 */
export interface EstimateDocument {
  /**
   * Numbers in the outputs of all modules for one token, containers included: what forward hooks add up.
   */
  activations_per_token: number;
  /**
   * A recording beside the estimate, where one was given.
   */
  against?: Against;
  /**
   * What was assumed.
   */
  assumptions: string[];
  /**
   * What is there at the peak, by the categories of the report.
   */
  breakdown: Breakdown;
  /**
   * Every card that is known, by the gigabytes on the box.
   */
  cards: Card[];
  /**
   * What the CUDA context takes beside it.
   */
  context_bytes: number;
  /**
   * The parameters that a file of weights lists, if there was one.
   */
  counted_parameters?: number;
  /**
   * How far off it may be.
   */
  error_band: ErrorBand;
  /**
   * Its family.
   */
  family: string;
  /**
   * What to change to fit, where that was asked.
   */
  fit?: Fit;
  /**
   * The name of the document.
   */
  format: 'highwater-estimate';
  /**
   * What the requested peak would be less if the script held the loss only.
   */
  held_outputs_bytes: number;
  /**
   * How the model is called.
   */
  model: string;
  /**
   * How many parameters it has.
   */
  parameters: number;
  /**
   * The peak of what the allocator hands out, rounded, without library workspaces.
   */
  peak_allocated_bytes: number;
  /**
   * In words, when the peak is.
   */
  peak_phase: string;
  /**
   * The peak of what is asked of the allocator, without library workspaces.
   */
  peak_requested_bytes: number;
  /**
   * What the allocator is expected to hold of the card, workspaces included.
   */
  peak_reserved_bytes: number;
  /**
   * The peak of each phase.
   */
  phases: PhasePeak[];
  /**
   * Bytes kept for the backward pass, for one token.
   */
  saved_bytes_per_token: number;
  /**
   * What was estimated.
   */
  setup: Setup;
  /**
   * The well-known formula for comparison, where that was asked.
   */
  simple?: Simple;
  /**
   * Estimates over a range, where those were asked.
   */
  sweep?: Sweep;
  /**
   * The same in detail, largest first.
   */
  terms: Term[];
  /**
   * Reserved bytes and the context.
   */
  total_bytes: number;
  /**
   * How many of them, or of its adapters, are trained.
   */
  trainable_parameters: number;
  /**
   * The version of its shape.
   */
  version: 1;
  /**
   * What cuBLAS works in, which the allocator hands out, too.
   */
  workspace_bytes: number;
}
/**
 * A recording beside the estimate: the busiest device, at its peak of requested bytes.
 */
export interface Against {
  /**
   * Each category of both.
   */
  categories: AgainstRow[];
  /**
   * CUDA ordinal.
   */
  device: number;
  /**
   * The phase that the recorded peak falls in; null where no iterations are known.
   */
  peak_phase: string | null;
  /**
   * The recorded peak of requested bytes.
   */
  peak_requested_bytes: number;
  /**
   * The recorded peak of reserved bytes.
   */
  peak_reserved_bytes: number;
  /**
   * What the recording is called.
   */
  snapshot: string;
  /**
   * What of the program's life the recording does not have; null if it has all.
   */
  unseen: string | null;
}
/**
 * A category of both.
 */
export interface AgainstRow {
  /**
   * Its name, such as `optimizer_state`.
   */
  category: string;
  /**
   * By the estimate.
   */
  estimated_bytes: number;
  /**
   * By the recording.
   */
  recorded_bytes: number;
}
/**
 * Bytes at the peak by category.
 */
export interface Breakdown {
  /**
   * Kept for the backward pass.
   */
  activation: number;
  /**
   * In inference, the keys and values that are kept from token to token.
   */
  cache: number;
  /**
   * Their gradients.
   */
  gradient: number;
  /**
   * What the program feeds in.
   */
  input: number;
  /**
   * What the optimizer keeps.
   */
  optimizer_state: number;
  /**
   * Weights and buffers of the model.
   */
  parameter: number;
  /**
   * What lives for a moment.
   */
  temporary: number;
  /**
   * Always 0: an estimate knows what everything is for. As the report has it.
   */
  unknown: number;
  /**
   * What libraries keep.
   */
  workspace: number;
}
/**
 * Whether it fits a card.
 */
export interface Card {
  /**
   * Whether the total is no more.
   */
  fits: boolean;
  /**
   * What the driver says is there.
   */
  memory_bytes: number;
  /**
   * How the card is called on the command line.
   */
  name: string;
  /**
   * What is left, negative for what is missing.
   */
  spare_bytes: number;
}
/**
 * How far off an estimate may be.
 */
export interface ErrorBand {
  /**
   * What that rests on.
   */
  evidence: string;
  /**
   * And no more.
   */
  high_bytes: number;
  /**
   * The requested peak is believed to be no less.
   */
  low_bytes: number;
  /**
   * The larger deviation, in percent.
   */
  percent: number;
}
/**
 * What to change to fit.
 */
export interface Fit {
  /**
   * The changes that were tried, the cheapest that fits first.
   */
  changes: Change[];
  /**
   * Whether it fits as it is.
   */
  fits: boolean;
  /**
   * The largest batch that fits, if any does.
   */
  largest_batch?: number;
  /**
   * What the card has.
   */
  limit_bytes: number;
}
/**
 * A change that was tried.
 */
export interface Change {
  /**
   * What to change.
   */
  change: string;
  /**
   * What it costs otherwise.
   */
  cost: string;
  /**
   * Whether that fits.
   */
  fits: boolean;
  /**
   * What the run then takes of the card.
   */
  total_bytes: number;
}
/**
 * The peak of a phase.
 */
export interface PhasePeak {
  /**
   * Requested bytes at most.
   */
  peak_requested_bytes: number;
  /**
   * The phase: `loading`, `forward`, `backward`, `first step`, `optimizer step`, `prefill`, `decode`.
   */
  phase: string;
}
/**
 * What was estimated.
 */
export interface Setup {
  /**
   * The type that the forward pass runs in, if it is another.
   */
  autocast: string | null;
  /**
   * Sequences, or images, in a micro-batch.
   */
  batch: number;
  /**
   * Whether blocks are computed again in the backward pass.
   */
  checkpointing: boolean;
  /**
   * The type that the model's configuration names, if it names one: the default of `dtype`.
   */
  configured_dtype?: string;
  /**
   * The type of the weights.
   */
  dtype: string;
  /**
   * Tokens of a sequence.
   */
  seq: number;
}
/**
 * The formula of the blog post "Visualize and understand GPU memory in PyTorch", in its two forms.
 */
export interface Simple {
  /**
   * Its activations for a token: `4.6894e-4·N + 1.8494e6`.
   */
  activations_per_token: number;
  /**
   * `model + optimizer state + max(gradients + optimizer intermediates, activations)`, as the post derives it.
   */
  derived_bytes: number;
  /**
   * `model + optimizer state + max(gradients, optimizer intermediates, activations)`, as it sums up and its calculator computes.
   */
  summary_bytes: number;
}
/**
 * Estimates over a range.
 */
export interface Sweep {
  /**
   * What takes each value: `batch` or `seq`.
   */
  name: string;
  /**
   * One for each value.
   */
  rows: SweepRow[];
}
/**
 * The estimate of a value.
 */
export interface SweepRow {
  /**
   * In words, when the peak is.
   */
  peak_phase: string;
  /**
   * The peak of what is asked of the allocator.
   */
  peak_requested_bytes: number;
  /**
   * What it takes of the card.
   */
  total_bytes: number;
  /**
   * The value.
   */
  value: number;
}
/**
 * A term of the peak: tensors of the same kind.
 */
export interface Term {
  /**
   * All of them together.
   */
  bytes: number;
  /**
   * Of which category.
   */
  category: Category;
  /**
   * How many tensors.
   */
  count: number;
  /**
   * How the bytes come about: count × sizes × bytes of a number.
   */
  formula: string;
  /**
   * What it is.
   */
  name: string;
  /**
   * The part of the model or of the step.
   */
  part: string;
}
