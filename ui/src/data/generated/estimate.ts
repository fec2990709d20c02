/** Made by `make schemas` of the comments in crates/documents: change these. */

/**
 * The category of a block, in the words of the report.
 */
export type Category =
  'parameter' | 'gradient' | 'optimizer_state' | 'activation' | 'cache' | 'input' | 'temporary' | 'workspace';

/**
 * The memory that a model needs, computed from its configuration. Made by `highwater estimate --format json`.
 */
export interface EstimateDocument {
  /**
   * Elements in the outputs of all modules per token, containers included, as forward hooks count them.
   */
  activations_per_token: number;
  /**
   * A recording beside the estimate, where one was given.
   */
  against?: Against;
  /**
   * The assumptions.
   */
  assumptions: string[];
  /**
   * Live memory at the peak, by the categories of the report.
   */
  breakdown: Breakdown;
  /**
   * Every known GPU, by its nominal gigabytes.
   */
  cards: Card[];
  /**
   * The CUDA context, in addition.
   */
  context_bytes: number;
  /**
   * The parameters that a file of weights lists, if there was one.
   */
  counted_parameters?: number;
  /**
   * The error band of the estimate.
   */
  error_band: ErrorBand;
  /**
   * Its family.
   */
  family: string;
  /**
   * Changes that would make it fit, if a capacity was given.
   */
  fit?: Fit;
  /**
   * The name of the document.
   */
  format: 'highwater-estimate';
  /**
   * Bytes less at the requested peak if the script kept only the loss.
   */
  held_outputs_bytes: number;
  /**
   * The model's name.
   */
  model: string;
  /**
   * The number of its parameters.
   */
  parameters: number;
  /**
   * The peak of allocated memory, with rounding, without library workspaces.
   */
  peak_allocated_bytes: number;
  /**
   * In words, when the peak is.
   */
  peak_phase: string;
  /**
   * The peak of requested memory, without library workspaces.
   */
  peak_requested_bytes: number;
  /**
   * The expected reserved memory, workspaces included.
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
   * The estimated setup.
   */
  setup: Setup;
  /**
   * The well-known formula for comparison, if it was requested.
   */
  simple?: Simple;
  /**
   * Estimates over a range, if they were requested.
   */
  sweep?: Sweep;
  /**
   * The terms of the peak, largest first.
   */
  terms: Term[];
  /**
   * Reserved bytes and the context.
   */
  total_bytes: number;
  /**
   * The number of trained parameters, those of adapters included.
   */
  trainable_parameters: number;
  /**
   * The version of its shape.
   */
  version: 1;
  /**
   * Workspaces of cuBLAS, which PyTorch's allocator provides.
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
   * The name of the recording.
   */
  snapshot: string;
  /**
   * The part of the run that the recording lacks; null if it covers the whole run.
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
   * Data that the program feeds in.
   */
  input: number;
  /**
   * State that the optimizer keeps.
   */
  optimizer_state: number;
  /**
   * Weights and buffers of the model.
   */
  parameter: number;
  /**
   * Short-lived memory.
   */
  temporary: number;
  /**
   * Always 0, because an estimate knows every category; present as in the report.
   */
  unknown: number;
  /**
   * Memory that libraries keep.
   */
  workspace: number;
}
/**
 * Whether it fits a GPU.
 */
export interface Card {
  /**
   * Whether the run fits at the upper end of the error band.
   */
  fits: boolean;
  /**
   * Whether it fits at the lower end only.
   */
  may_fit: boolean;
  /**
   * The total that the driver reports.
   */
  memory_bytes: number;
  /**
   * The name of the GPU on the command line.
   */
  name: string;
  /**
   * Spare bytes at the upper end of the error band, negative if the run may need more.
   */
  spare_bytes: number;
}
/**
 * The error band of an estimate.
 */
export interface ErrorBand {
  /**
   * The evidence for the band.
   */
  evidence: string;
  /**
   * The requested peak is expected to be at most this.
   */
  high_bytes: number;
  /**
   * The requested peak is expected to be at least this.
   */
  low_bytes: number;
  /**
   * The larger deviation, in percent.
   */
  percent: number;
}
/**
 * A change that makes the run fit.
 */
export interface Fit {
  /**
   * The changes that were tried, the cheapest that fits first.
   */
  changes: Change[];
  /**
   * Whether it fits as it is, at the upper end of the error band.
   */
  fits: boolean;
  /**
   * The largest batch that fits, if any does.
   */
  largest_batch?: number;
  /**
   * The GPU's memory.
   */
  limit_bytes: number;
  /**
   * Whether it fits at the lower end only.
   */
  may_fit: boolean;
}
/**
 * A change that was tried.
 */
export interface Change {
  /**
   * The change.
   */
  change: string;
  /**
   * Its cost in time, precision or dependencies.
   */
  cost: string;
  /**
   * Whether that fits, at the upper end of its error band.
   */
  fits: boolean;
  /**
   * The memory of the run on the GPU after the change.
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
 * The estimated setup.
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
   * The GPU whose kernels and workspaces are assumed, by its name on the command line.
   */
  gpu: string;
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
   * The option that takes each value: `batch` or `seq`.
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
   * The peak of requested memory.
   */
  peak_requested_bytes: number;
  /**
   * The memory of the run on the GPU.
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
   * Its category.
   */
  category: Category;
  /**
   * The number of tensors.
   */
  count: number;
  /**
   * The formula of the bytes: count × sizes × bytes of a number.
   */
  formula: string;
  /**
   * The value.
   */
  name: string;
  /**
   * The part of the model or of the step.
   */
  part: string;
}
