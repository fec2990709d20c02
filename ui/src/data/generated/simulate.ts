/** Made by `make schemas` of the comments in crates/documents: change these. */

/**
 * A recording under other settings, with less memory, on other GPUs. Made by `highwater simulate --format json`.
 */
export interface Simulation {
  /**
   * Settings that make the program worse.
   */
  alarms: Alarm[];
  /**
   * The lower bound for all settings.
   */
  bound: Bound;
  /**
   * CUDA ordinal.
   */
  device: number;
  /**
   * The cost of each `empty_cache()`.
   */
  empty_caches: EmptyCache[];
  /**
   * Whether a request failed in the recording: the requests after it are unknown, so a run that serves all recorded requests does not prove that the program fits.
   */
  ends_at_error: boolean;
  /**
   * How well the rules explain the recording.
   */
  fidelity: Fidelity;
  /**
   * The least memory that is enough, if no capacity was given.
   */
  fit: Fit[];
  /**
   * The name of the document.
   */
  format: 'highwater-simulate';
  /**
   * The largest block that could have been allocated, over time.
   */
  largest_block: Largest[];
  /**
   * Why the program may differ from the recorded one.
   */
  premise?: string;
  /**
   * Requests of the program that is run again.
   */
  requests: number;
  /**
   * Each of the settings with each of the capacities, in the order given.
   */
  runs: Run[];
  /**
   * Call sites whose long-lived blocks fragment memory.
   */
  sites: Site[];
  /**
   * Reserved memory over time, if requested.
   */
  timelines?: Timeline[];
  /**
   * The version whose rules apply.
   */
  torch: Rules;
  /**
   * The answer, if neither settings nor a capacity were given.
   */
  verdict?: Verdict;
  /**
   * The version of its shape.
   */
  version: 1;
  /**
   * Where the peak of reserved memory goes; the bars add up to it.
   */
  waterfall: Bar[];
}
/**
 * A setting that makes the program worse.
 */
export interface Alarm {
  /**
   * The settings.
   */
  conf: string;
  /**
   * The peak under the recording's own settings.
   */
  own_reserved_bytes: number;
  /**
   * The peak under these.
   */
  reserved_bytes: number;
}
/**
 * Bounds on any allocator.
 */
export interface Bound {
  /**
   * The peak of live memory, each request rounded up to 512 bytes.
   */
  live_bytes: number;
  /**
   * Where.
   */
  live_entry: number | null;
  /**
   * Bytes that a placement with knowledge of the future needs.
   */
  packed_bytes: number;
  /**
   * Whether the two meet.
   */
  proven_optimal: boolean;
}
/**
 * The cost of an `empty_cache()`.
 */
export interface EmptyCache {
  /**
   * The number of calls.
   */
  calls: number;
  /**
   * Calls to the driver that it caused.
   */
  device_allocs: number;
  /**
   * The first entry that it caused; null for all calls together.
   */
  entry: number | null;
  /**
   * The increase of the peak without the call.
   */
  saved_bytes: number;
}
/**
 * How well the rules explain a recording.
 */
export interface Fidelity {
  /**
   * Entries compared.
   */
  entries: number;
  /**
   * The number of equal entries before the first difference.
   */
  equal: number;
  /**
   * The first that did not; absent where all came out the same.
   */
  first_difference?: Difference;
}
/**
 * The point where a replay diverges from its recording.
 */
export interface Difference {
  /**
   * CUDA ordinal.
   */
  device: number;
  /**
   * The entry.
   */
  entry: number;
  /**
   * Why, as far as can be said.
   */
  note: string;
  /**
   * The allocator's action there; null where the replay could not continue.
   */
  predicted: Entry | null;
  /**
   * The recorded action; null where the recording ends.
   */
  recorded: Entry | null;
}
/**
 * The compared fields of an entry.
 */
export interface Entry {
  /**
   * PyTorch's word, such as `alloc`.
   */
  action: string;
  /**
   * Absent for an `oom`, which has no address.
   */
  address?: number;
  /**
   * Bytes of the block or segment.
   */
  size_bytes: number;
  /**
   * The stream's handle; 0 is the default stream.
   */
  stream: number;
}
/**
 * How little memory is enough under some settings.
 */
export interface Fit {
  /**
   * Reserved memory without a limit.
   */
  ample_reserved_bytes: number;
  /**
   * Whether it fits each size of card; none where the recording ends at an error, which proves of no card that the program fits.
   */
  cards: Card[];
  /**
   * The settings.
   */
  conf: string;
  /**
   * The same for the least favourable order of addresses.
   */
  min_capacity_any_order_bytes: number;
  /**
   * The smallest capacity from which on no request fails; above 2 TiB an upper bound.
   */
  min_capacity_bytes: number;
  /**
   * Second attempts at the smallest capacity.
   */
  num_alloc_retries: number;
  /**
   * Beyond the live memory.
   */
  over_live_ratio: number;
}
/**
 * Whether a GPU is enough.
 */
export interface Card {
  /**
   * Whether no request fails.
   */
  fits: boolean;
  /**
   * The nominal gigabytes.
   */
  gigabytes: number;
  /**
   * The GPU of that size with the least memory, by its driver's name.
   */
  name: string;
  /**
   * Second attempts.
   */
  num_alloc_retries: number;
  /**
   * Its common name, such as `RTX 4060`.
   */
  short_name: string;
  /**
   * Its memory.
   */
  total_bytes: number;
}
/**
 * The largest block that could have been allocated.
 */
export interface Largest {
  /**
   * The total; null without a limit.
   */
  allocatable_bytes: number | null;
  /**
   * From the cache.
   */
  cached_bytes: number;
  /**
   * The entry.
   */
  entry: number | null;
}
/**
 * One run.
 */
export interface Run {
  /**
   * The memory that the allocator may reserve; null without a limit.
   */
  capacity_bytes: number | null;
  /**
   * The GPU, if one was given.
   */
  card?: string;
  /**
   * The total memory of that GPU. The CUDA context takes the difference to `capacity_bytes`.
   */
  card_total_bytes?: number;
  /**
   * The settings.
   */
  conf: string;
  /**
   * `exact`, `address-sensitive` or `premise-broken`.
   */
  confidence: 'exact' | 'address-sensitive' | 'premise-broken';
  /**
   * Second attempts.
   */
  num_alloc_retries: number;
  /**
   * Requests that failed.
   */
  num_ooms: number;
  /**
   * The failure.
   */
  oom?: Failure;
  /**
   * The entry of the first request that failed.
   */
  oom_entry?: number;
  /**
   * `fits`, where every recorded request is served, or `oom`.
   */
  outcome: 'fits' | 'oom';
  /**
   * The peak of allocated bytes.
   */
  peak_allocated_bytes: number;
  /**
   * The lowest and highest peak of allocated bytes over several orders of addresses.
   *
   * @minItems 2
   * @maxItems 2
   */
  peak_allocated_range_bytes: [number, number];
  /**
   * The largest amount held from the driver.
   */
  peak_reserved_bytes: number;
  /**
   * The lowest and highest amount held from the driver over the same orders.
   *
   * @minItems 2
   * @maxItems 2
   */
  peak_reserved_range_bytes: [number, number];
  /**
   * Why not exact.
   */
  reason?: string;
}
/**
 * A request that failed in a run.
 */
export interface Failure {
  /**
   * In use at that moment.
   */
  allocated_bytes: number;
  /**
   * The node of autograd's graph, of a stack that runs one: `frames` are then those of its forward operator, if known.
   */
  autograd_node?: string;
  /**
   * The stack of the request.
   */
  frames: Frame[];
  /**
   * The message that PyTorch would have printed.
   */
  message: string | null;
  /**
   * The program's own first line, where `frames` begin in a library.
   */
  own_frame?: Frame;
  /**
   * The fewest live blocks without which it would have been served; absent if none would have helped.
   */
  pinning?: Pinning;
  /**
   * The call site in words, as every table shows it.
   */
  place: string;
  /**
   * Requested.
   */
  requested_bytes: number;
  /**
   * Held at that moment.
   */
  reserved_bytes: number;
  /**
   * Bytes requested from the driver.
   */
  segment_bytes: number;
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
 * A call site whose long-lived blocks fragment memory.
 */
export interface Site {
  /**
   * The node of autograd's graph, of a stack that runs one: `frames` are then those of its forward operator, if known.
   */
  autograd_node?: string;
  /**
   * Its long-lived blocks.
   */
  count: number;
  /**
   * The stack, the site first.
   */
  frames: Frame[];
  /**
   * The reduction of the peak if they are allocated before anything else.
   */
  hoisted_saves_bytes: number;
  /**
   * The program's own first line, where `frames` begin in a library.
   */
  own_frame?: Frame;
  /**
   * The call site in words, as every table shows it.
   */
  place: string;
  /**
   * The reduction of the peak if they come from a pool of their own.
   */
  pooled_saves_bytes: number;
  /**
   * Their requested bytes.
   */
  requested_bytes: number;
}
/**
 * Reserved bytes over the recording: a step function of its entries.  Of more than 4,000 steps the highest and the last of each of 2,000 stretches remain. A faithful run of the recorded settings reserves the recorded bytes, at every entry.
 */
export interface Timeline {
  /**
   * The memory that the allocator may reserve; null without a limit.
   */
  capacity_bytes: number | null;
  /**
   * The settings.
   */
  conf: string;
  /**
   * Entries, ascending from 0 on.
   */
  entries: number[];
  /**
   * The entry of the first request that failed, which ends the run.
   */
  oom_entry?: number;
  /**
   * Reserved memory from each of them to the next.
   */
  reserved_bytes: number[];
}
/**
 * The version whose rules are used.
 */
export interface Rules {
  /**
   * How it was chosen: `flag`, `file` (by its keys) or `replay`.
   */
  chosen_by: string;
  /**
   * The version whose rules explain the recording, which gives the program.
   */
  replayed: string;
  /**
   * The version.
   */
  version: string;
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
 * One bar of the waterfall.
 */
export interface Bar {
  /**
   * The reduction of the peak without it.
   */
  bytes: number;
  /**
   * The cause.
   */
  cause: string;
}
