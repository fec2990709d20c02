/** Made by `make schemas` of the comments in crates/documents: change these. */

/**
 * The ranks of a job side by side: groups, outliers and their causes. Made by `highwater ranks --format json`.
 */
export interface Ranks {
  /**
   * The first request that failed in any rank.
   */
  first_failure: FirstFailure | null;
  /**
   * The name of the document.
   */
  format: 'highwater-ranks';
  /**
   * Ranks that hold about as much of the same, largest first; a rank that is an outlier is in a group of its own.
   */
  groups: Group[];
  /**
   * How evenly memory is spread.
   */
  imbalance: Imbalance;
  /**
   * Remarks on the limits of the comparison.
   */
  notes: string[];
  /**
   * The ways in which the job is divided among its ranks, as far as its memory shows: `data`, `sharded`, `tensor`, `pipeline`, `expert`.
   */
  parallel: string[];
  /**
   * Every rank, by its number; each device of a process counts as a rank.
   */
  ranks: Rank[];
  /**
   * Files that are not among `ranks`, or only in part, and why.
   */
  unread: Unread[];
  /**
   * The answer: which ranks differ, by how much, and why.
   */
  verdict: string;
  /**
   * The version of its shape.
   */
  version: 1;
  /**
   * The number of ranks of the job, if a manifest or a file gives it; there may be fewer files.
   */
  world_size: number | null;
}
/**
 * The first request that failed in any rank.
 */
export interface FirstFailure {
  /**
   * The entry.
   */
  entry: number;
  /**
   * The complete iterations before it.
   */
  iteration: number | null;
  /**
   * How ranks were put in order: `clock` for clocks of one host, `iterations` for clocks set by common iterations, or `unknown`.
   */
  ordered_by: string;
  /**
   * Ranks that failed later, or at a time that cannot be compared.
   */
  others: number;
  /**
   * The rank; null where its number is unknown.
   */
  rank: number | null;
  /**
   * The bytes of the request.
   */
  requested_bytes: number;
  /**
   * Its place in `ranks`.
   */
  row: number;
  /**
   * The time by that rank's clock.
   */
  time_us: number | null;
}
/**
 * Ranks that hold about as much.
 */
export interface Group {
  /**
   * Its number.
   */
  id: number;
  /**
   * Whether they are outliers.
   */
  is_outlier: boolean;
  /**
   * The median of their peaks.
   */
  median_peak_allocated_bytes: number;
  /**
   * The numbers of its ranks, ascending; the places in `ranks` of those without a number are in `rows` alone.
   */
  ranks: number[];
  /**
   * The part in the job that they have in common.
   */
  role: string | null;
  /**
   * The places of its ranks in `ranks`.
   */
  rows: number[];
}
/**
 * The largest over the mean: 1 where all ranks hold as much.
 */
export interface Imbalance {
  /**
   * Of the peaks of allocated bytes; null without ranks.
   */
  allocated: number | null;
  /**
   * The imbalance of each category that holds memory at the peak.
   */
  by_category: CategoryImbalance[];
  /**
   * Of the groups' medians, for each part of a pipeline.
   */
  by_stage: StageImbalance[];
  /**
   * Of the peaks of reserved bytes.
   */
  reserved: number | null;
}
/**
 * The imbalance of a category.
 */
export interface CategoryImbalance {
  /**
   * Its bytes.
   */
  largest_bytes: number;
  /**
   * The largest over the mean.
   */
  largest_over_mean: number;
  /**
   * The rank that holds the most, as its place in `ranks`.
   */
  largest_row: number;
  /**
   * Its name, such as `optimizer_state`.
   */
  name: string;
}
/**
 * The imbalance within a stage.
 */
export interface StageImbalance {
  /**
   * The largest peak over the mean peak of its ranks.
   */
  allocated: number;
  /**
   * The mean peak.
   */
  mean_peak_allocated_bytes: number;
  /**
   * The stage in words.
   */
  role: string;
}
/**
 * A rank: a device of one recording.
 */
export interface Rank {
  /**
   * Its difference from the median rank, taken apart, largest first.
   */
  because: Because[];
  /**
   * Allocated at the peak, by category.
   */
  categories: Categories;
  /**
   * CUDA ordinal.
   */
  device: number;
  /**
   * Allocated at the dump.
   */
  end_allocated_bytes: number;
  /**
   * Trace entries.
   */
  entries: number;
  /**
   * Its file.
   */
  file: string;
  /**
   * Reserved and in no active block, at the peak.
   */
  free_at_peak_bytes: number;
  /**
   * The `id` of its group.
   */
  group: number;
  /**
   * The host that it ran on, where that is known.
   */
  host: string | null;
  /**
   * Whether it differs from the others of its part in the job.
   */
  is_outlier: boolean;
  /**
   * Complete iterations in the recording.
   */
  iterations: number;
  /**
   * Requests that failed.
   */
  oom: number;
  /**
   * The highest allocated bytes; requested bytes where the sizes of blocks are estimates.
   */
  peak_allocated_bytes: number;
  /**
   * Where its peak is: `set-up` before the first iteration, `iteration`, or `afterwards`; null without iterations.
   */
  peak_in: string | null;
  /**
   * The highest reserved bytes.
   */
  peak_reserved_bytes: number;
  /**
   * Its number in the job; null if it is unknown.
   */
  rank: number | null;
  /**
   * Why it does not hold the whole run; absent if it does.
   */
  recorded?: string;
  /**
   * Requests for which the allocator first had to release its cache.
   */
  retries: number;
  /**
   * Its part in the job, where memory or a manifest shows it, such as `pipeline stage 1 of 4`.
   */
  role: string | null;
}
/**
 * One cause of a difference.
 */
export interface Because {
  /**
   * Call sites that differ for this cause, largest difference first.
   */
  call_sites: SiteDelta[];
  /**
   * Bytes more than the median rank; negative if fewer.
   */
  delta_bytes: number;
  /**
   * The kind of cause: see `docs/ranks.md`.
   */
  kind: string;
  /**
   * The cause in words.
   */
  sentence: string;
  /**
   * The call site or device that shows it best.
   */
  where: string | null;
}
/**
 * A call site of two ranks.
 */
export interface SiteDelta {
  /**
   * Bytes at this rank's peak.
   */
  bytes: number;
  /**
   * Bytes at the peak of the median rank.
   */
  other_bytes: number;
  /**
   * The site in words.
   */
  place: string;
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
 * A file that is not compared, or only in part.
 */
export interface Unread {
  /**
   * The file, or a rank that has none.
   */
  file: string;
  /**
   * Why.
   */
  reason: string;
}
