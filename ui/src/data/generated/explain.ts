/** Made by `make schemas` of the comments in crates/documents: change these. */

/**
 * Why memory ran out, and how to fix it. Made by `highwater explain --format json`.
 */
export interface Explanation {
  /**
   * The cause of the first failure.
   */
  diagnosis: Diagnosis;
  /**
   * Where a message and a snapshot that are given together do not report the same failure.
   */
  disagreements?: string[];
  /**
   * What an engine that serves a model printed in the log while it started.
   */
  engine?: Engine;
  /**
   * The explained error; absent if PyTorch's message is explained.
   */
  error?: Error;
  /**
   * Failures of engines, libraries and the host in a log, with equal ones together.
   */
  errors?: Error[];
  /**
   * The failures of a snapshot.
   */
  failures?: FailureExplained[];
  /**
   * These numbers beside the forecast for this start.
   */
  forecast?: ServeAgainst;
  /**
   * The name of the document.
   */
  format: 'highwater-explain';
  /**
   * The first of them.
   */
  message?: Message;
  /**
   * The number of all messages.
   */
  message_count: number;
  /**
   * The messages of a log, with equal ones together.
   */
  messages: Message[];
  /**
   * Different ones that are not listed, for there are too many.
   */
  messages_left_out?: number;
  /**
   * Why there is no forecast beside an engine's numbers.
   */
  no_forecast?: string;
  /**
   * The parts of the device's memory at the first failure.
   */
  shares: Share[];
  /**
   * Advice, the largest saving first.
   */
  steps: Step[];
  /**
   * The version of its shape.
   */
  version: 1;
  /**
   * Warnings about the snapshot.
   */
  warnings: Warning[];
}
/**
 * Why.
 */
export interface Diagnosis {
  /**
   * Causes that contribute.
   */
  also: string[];
  /**
   * `too-big`, `fragmentation`, `other-process`, `leftover`, `outside-pytorch`, `limit`, `never-fits`, `private-pools`, `expandable-reserve`, `custom-allocator`, `refused`, `contradiction`, `unknown`; of engines `kv-cache`, `engine-share`; of a kernel `kernel-shared-memory`; of the host `host-memory`, `shared-memory`; or `fits` if nothing fails, `warning` if nothing has failed yet, `not-memory` if memory did not run out.
   */
  cause: string;
  /**
   * The memory limit of the process, if that is the cause; both numbers are equal if it is known exactly.
   */
  limit?: Limit;
  /**
   * The memory that the request lacked, as far as the numbers show.
   */
  missing_bytes?: number;
  /**
   * Further notes.
   */
  notes: string[];
  /**
   * The sentence.
   */
  text: string;
}
/**
 * A limit, or its lower and upper bound.
 */
export interface Limit {
  /**
   * The lower bound: this much was reserved.
   */
  at_least_bytes: number;
  /**
   * The upper bound: this much was refused.
   */
  at_most_bytes: number;
}
/**
 * The numbers that a serving engine printed while it started. Of several processes it has the first number of each kind, and the smallest of the KV cache.
 */
export interface Engine {
  /**
   * The peak of activations in the profile run.
   */
  activation_peak_bytes?: number;
  /**
   * The memory that the engine may use.
   */
  budget_bytes?: number;
  /**
   * `vllm`, `sglang`, `tgi`, `tensorrt-llm`, `llama.cpp`, `ollama` or `lmdeploy`.
   */
  engine?: string;
  /**
   * Blocks of the KV cache.
   */
  gpu_blocks?: number;
  /**
   * CUDA graphs.
   */
  graph_bytes?: number;
  /**
   * Memory for the KV cache; below zero where there is a deficit.
   */
  kv_cache_bytes?: number;
  /**
   * Tokens that the KV cache holds.
   */
  kv_tokens?: number;
  /**
   * Tokens of the longest request.
   */
  max_model_len?: number;
  /**
   * The model, as given to the engine.
   */
  model?: string;
  /**
   * The memory outside PyTorch.
   */
  non_torch_bytes?: number;
  /**
   * The engine's share of the GPU: `gpu_memory_utilization`, `mem_fraction_static`.
   */
  share?: number;
  /**
   * All memory of the GPU.
   */
  total_bytes?: number;
  /**
   * The release.
   */
  version?: string;
  /**
   * The weights as loaded.
   */
  weights_bytes?: number;
}
/**
 * A failure of an engine, a library or the host, by its words.
 */
export interface Error {
  /**
   * The number of equal ones.
   */
  count: number;
  /**
   * A stable word for its meaning, such as `vllm-no-blocks`.
   */
  id: string;
  /**
   * The line of the first, from 1 on.
   */
  line: number;
  /**
   * Who prints it, and in which releases.
   */
  origin: string;
  /**
   * The process in the job.
   */
  rank?: number;
  /**
   * Its numbers and names.
   */
  values: Value[];
}
/**
 * A number or a name of such a failure.
 */
export interface Value {
  /**
   * An amount of memory.
   */
  bytes?: number;
  /**
   * Its name, such as `needed`.
   */
  name: string;
  /**
   * Another number.
   */
  number?: number;
  /**
   * A name.
   */
  text?: string;
}
/**
 * A failure of a snapshot.
 */
export interface FailureExplained {
  /**
   * In blocks that tensors own.
   */
  allocated_bytes: number | null;
  /**
   * The node of autograd's graph, of a stack that runs one: `frames` are then those of its forward operator, if known.
   */
  autograd_node?: string;
  /**
   * Live memory.
   */
  call_sites: CallSite[];
  /**
   * Live memory by category, in the measure of its call sites.
   */
  categories: Categories;
  /**
   * CUDA ordinal.
   */
  device: number;
  /**
   * Why.
   */
  diagnosis: Diagnosis;
  /**
   * The entry; absent if the request came before the recording.
   */
  entry?: number;
  /**
   * The stack of the request.
   */
  frames: Frame[];
  /**
   * Free memory that the driver reported.
   */
  free_bytes?: number;
  /**
   * Free memory in the allocator, by the reason why it could not be used.
   */
  gaps?: Gaps;
  /**
   * The program's own first line, where `frames` begin in a library.
   */
  own_frame?: Frame;
  /**
   * The fewest live blocks without which the request would have been served.
   */
  pinning?: Pinning;
  /**
   * The call site in words, as every table shows it.
   */
  place: string;
  /**
   * The requested bytes, rounded.
   */
  requested_bytes: number;
  /**
   * In segments.
   */
  reserved_bytes: number | null;
  /**
   * In segments and in no active block.
   */
  reserved_unallocated_bytes: number | null;
  /**
   * The parts of the device's memory.
   */
  shares: Share[];
  /**
   * It did not fail in the recording, but would with so much memory.
   */
  simulated_capacity_bytes?: number;
  /**
   * The whole memory of the simulated GPU, if one was given.
   */
  simulated_card_bytes?: number;
  /**
   * The simulator's verdict on other settings.
   */
  simulation?: Verdict;
  /**
   * Advice, the largest saving first.
   */
  steps: Step[];
  /**
   * Bytes requested from the driver.
   */
  tried_bytes: number | null;
  /**
   * The memory of the whole step in which the request failed.
   */
  whole_step?: WholeStep;
}
/**
 * Allocations of one call site.
 */
export interface CallSite {
  /**
   * The node of autograd's graph, of a stack that runs one: `frames` are then those of its forward operator, if known.
   */
  autograd_node?: string;
  /**
   * Bytes of the total named by `AtPeakView::by`: of allocated bytes, those of the blocks.
   */
  bytes: number;
  /**
   * Allocations.
   */
  count: number;
  /**
   * The line that stands for it, then its callers, folded to the user's own code.
   */
  frames: Frame[];
  /**
   * The words for the call site if there is no frame.
   */
  label?: string;
  /**
   * The program's own first line, where `frames` begin in a library.
   */
  own_frame?: Frame;
  /**
   * The call site in words, as every table shows it.
   */
  place: string;
  /**
   * Requested bytes.
   */
  requested_bytes: number;
}
/**
 * A frame.
 */
export interface Frame {
  /**
   * The file.
   */
  filename: string;
  /**
   * The line.
   */
  line: number;
  /**
   * The function.
   */
  name: string;
}
/**
 * Bytes by category.
 */
export interface Categories {
  /**
   * Kept for the backward pass.
   */
  activation: number;
  /**
   * Kept from one call of the model to the next.
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
   * Unknown.
   */
  unknown: number;
  /**
   * Memory that libraries keep.
   */
  workspace: number;
}
/**
 * Free memory of the allocator at a failure.
 */
export interface Gaps {
  /**
   * Free in segments of other streams or of the pool for small requests.
   */
  elsewhere_bytes: number;
  /**
   * The largest piece.
   */
  largest_bytes: number;
  /**
   * Pieces that this is in.
   */
  pieces: number;
  /**
   * Free in private pools.
   */
  private_bytes: number;
  /**
   * Such segments with something free.
   */
  segments: number;
  /**
   * Free in segments that the request could have been served from.
   */
  usable_bytes: number;
}
/**
 * The fewest live blocks that stood in the way of a request.
 */
export interface Pinning {
  /**
   * Their bytes.
   */
  bytes: number;
  /**
   * By call site, the largest first.
   */
  call_sites: PinningSite[];
  /**
   * Their number.
   */
  count: number;
  /**
   * Whether the request would have taken their place; else memory would have gone back to the driver.
   */
  in_place: boolean;
  /**
   * Whether fewer are certainly not enough.
   */
  is_smallest: boolean;
}
/**
 * A call site of such blocks.
 */
export interface PinningSite {
  /**
   * The node of autograd's graph, of a stack that runs one: `frames` are then those of its forward operator, if known.
   */
  autograd_node?: string;
  /**
   * The number of blocks.
   */
  count: number;
  /**
   * The stack, the site first.
   */
  frames: Frame[];
  /**
   * The program's own first line, where `frames` begin in a library.
   */
  own_frame?: Frame;
  /**
   * The call site in words, as every table shows it.
   */
  place: string;
  /**
   * Requested bytes.
   */
  requested_bytes: number;
}
/**
 * A part of the device's memory.
 */
export interface Share {
  /**
   * The bytes.
   */
  bytes: number;
  /**
   * `allocated`, `unallocated`, `private-pools`, `outside-pytorch`, `process`, `others`, `untold` or `free`.
   */
  holder: string;
  /**
   * The process, if it is another.
   */
  pid?: number;
}
/**
 * The answer.
 */
export interface Verdict {
  /**
   * The memory that the answer is about.
   */
  capacity_bytes?: number;
  /**
   * The settings that it recommends.
   */
  conf?: string;
  /**
   * `impossible`, `saved`, `not-saved`, `better` or `optimal`.
   */
  kind: 'impossible' | 'saved' | 'not-saved' | 'better' | 'optimal';
  /**
   * The peak of live memory.
   */
  live_bytes: number;
  /**
   * Where.
   */
  live_entry: number | null;
  /**
   * Bytes of it that stay free.
   */
  spare_bytes?: number;
  /**
   * The sentence.
   */
  text: string;
}
/**
 * Something to change.
 */
export interface Step {
  /**
   * The saving.
   */
  brings_bytes?: number;
  /**
   * The setting, code or command.
   */
  change?: string;
  /**
   * The allocator settings, where these are all that is changed: to ask the simulator about.
   */
  conf?: string;
  /**
   * The numbers that it rests on.
   */
  detail: string;
  /**
   * Whether that alone would have let the request through.
   */
  enough?: boolean;
  /**
   * A stable word for its kind.
   */
  id: string;
  /**
   * The advice.
   */
  title: string;
}
/**
 * The memory that an interrupted step needs in full.
 */
export interface WholeStep {
  /**
   * At its peak, allocated bytes (requested bytes where blocks' sizes are estimates).
   */
  at_least_bytes: number;
  /**
   * Absent if it is unknown.
   */
  at_most_bytes?: number;
  /**
   * The evidence: `earlier-step`, `layers`, `phase` or `request`.
   */
  basis: string;
  /**
   * The lowest and the highest possible number.
   *
   * @minItems 2
   * @maxItems 2
   */
  layers?: [number, number];
  /**
   * Layers that were done, where a layer failed.
   */
  layers_done?: number;
  /**
   * The phase of the failure: `forward`, `backward` or `optimizer`.
   */
  phase?: string;
  /**
   * The answer, as a sentence.
   */
  text: string;
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
 * Messages that say the same, of one process.
 */
export interface Message {
  /**
   * "is allocated by PyTorch", "already allocated".
   */
  allocated_bytes?: number;
  /**
   * `CUDA`, `HIP`, `XPU`, `MPS`.
   */
  backend?: string;
  /**
   * "total capacity".
   */
  capacity_bytes?: number;
  /**
   * A word for the cause.
   */
  cause: string;
  /**
   * Their number.
   */
  count: number;
  /**
   * The text ends before the message does.
   */
  cut: boolean;
  /**
   * The device's ordinal.
   */
  device?: number;
  /**
   * "expandable-segment reserve of".
   */
  expandable_reserve_bytes?: number;
  /**
   * "is free".
   */
  free_bytes?: number;
  /**
   * "allowed".
   */
  limit_bytes?: number;
  /**
   * The line of the first, from 1 on.
   */
  line: number;
  /**
   * MPS: "other allocations".
   */
  other_allocations_bytes?: number;
  /**
   * "Process PID has".
   */
  other_processes: Process[];
  /**
   * "allocated in private pools".
   */
  private_pools_bytes?: number;
  /**
   * "this process has".
   */
  process_bytes?: number;
  /**
   * The process in the job.
   */
  rank?: number;
  /**
   * "reserved in total", "cached".
   */
  reserved_bytes?: number;
  /**
   * "is reserved by PyTorch but unallocated".
   */
  reserved_unallocated_bytes?: number;
  /**
   * The releases that write such a message.
   */
  torch?: string;
  /**
   * "Tried to allocate".
   */
  tried_bytes?: number;
}
/**
 * Another process on the device.
 */
export interface Process {
  /**
   * Its memory.
   */
  bytes: number;
  /**
   * Its id.
   */
  pid: number;
}
/**
 * A warning of the reader or the analysis.
 */
export interface Warning {
  /**
   * Offset of the first case in the decompressed input.
   */
  byte?: number;
  /**
   * The number of times.
   */
  count: number;
  /**
   * Device of the first case.
   */
  device?: number;
  /**
   * Entry of the first case.
   */
  entry?: number;
  /**
   * A stable word for its kind.
   */
  id: string;
  /**
   * The warning in words.
   */
  message: string;
}
