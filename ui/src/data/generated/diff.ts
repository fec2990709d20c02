/** Made by `make schemas` of the comments in crates/documents: change these. */

/**
 * The changes from one recording to another. Made by `highwater diff --format json`.
 */
export interface Diff {
  /**
   * The devices that were compared.
   */
  devices: DeviceDiff[];
  /**
   * The names of the recordings; every list with one element per file is in this order.
   */
  files: string[];
  /**
   * The name of the document.
   */
  format: 'highwater-diff';
  /**
   * Whether any of them is a profiler's, which has one total and no dump. Absent where none is.
   */
  is_profile?: boolean;
  /**
   * Settings that are not the same in all.
   */
  settings: SettingDiff[];
  /**
   * The version of its shape.
   */
  version: 1;
}
/**
 * A device of each file.
 */
export interface DeviceDiff {
  /**
   * When they are compared: `peak`, `end` or `iteration`.
   */
  at: string;
  /**
   * The peak by the batch; null if it is unknown.
   */
  batch: Batch | null;
  /**
   * Why it is null.
   */
  batch_unclear?: string;
  /**
   * The call sites, largest change first.
   */
  call_sites: SiteDiff[];
  /**
   * The categories that any file has.
   */
  categories: CategoryDiff[];
  /**
   * That of the first file.
   */
  device: number;
  /**
   * One for each file.
   */
  devices: number[];
  /**
   * Which iteration.
   */
  iteration?: number;
  /**
   * The files are two dumps of one process, and the last goes on for this many entries.
   */
  later_by_entries?: number;
  /**
   * One for each file.
   */
  sides: Side[];
}
/**
 * The peak by the batch: the larger of `floor_bytes` and `fixed_bytes + bytes_per_unit * batch + bytes_per_unit_squared * batch²`.
 */
export interface Batch {
  /**
   * Bytes per unit of the batch.
   */
  bytes_per_unit: number;
  /**
   * Bytes per square of the batch; 0 where the points lie on a line.
   */
  bytes_per_unit_squared: number;
  /**
   * The largest batch for a capacity, if one was given.
   */
  capacity?: Capacity;
  /**
   * A file whose inputs imply a batch other than the given one; absent if there is none.
   */
  contradiction?: Contradiction;
  /**
   * Bytes that do not depend on the batch.
   */
  fixed_bytes: number;
  /**
   * The lowest possible peak, for any batch.
   */
  floor_bytes: number;
  /**
   * The iteration that it was fitted to; absent if it was fitted to the whole recordings.
   */
  iteration?: number;
  /**
   * The largest distance of a point from the fit.
   */
  largest_residual_bytes: number;
  /**
   * The peaks by the line, smallest batch first: of the recorded batches, of the doublings between them, and of twice the largest.
   */
  peaks: BatchPeak[];
  /**
   * One for each file.
   */
  points: Point[];
  /**
   * The unit of a batch: `row`, or `first-batch`, where the first file's batch is 1.
   */
  unit: string;
}
/**
 * The largest batch for a capacity.
 */
export interface Capacity {
  /**
   * The capacity.
   */
  bytes: number;
  /**
   * The largest batch whose peak is within it; null if none is.
   */
  largest_batch: number | null;
}
/**
 * A file whose inputs imply a batch other than the given one.
 */
export interface Contradiction {
  /**
   * Its batch by its inputs, in batches of the first file: numerator and denominator.
   *
   * @minItems 2
   * @maxItems 2
   */
  batch_ratio: [number, number];
  /**
   * Its place in `files`.
   */
  file: number;
}
/**
 * The peak of a batch by the line.
 */
export interface BatchPeak {
  /**
   * The batch, in the unit, as a fraction: numerator and denominator.
   *
   * @minItems 2
   * @maxItems 2
   */
  batch_ratio: [number, number];
  /**
   * The peak.
   */
  peak_bytes: number;
}
/**
 * A file's batch and its peak.
 */
export interface Point {
  /**
   * The batch, in the unit.
   */
  batch: number;
  /**
   * The batch as a fraction: numerator and denominator.
   *
   * @minItems 2
   * @maxItems 2
   */
  batch_ratio: [number, number];
  /**
   * The peak by the line.
   */
  fitted_bytes: number;
  /**
   * The peak that was recorded.
   */
  peak_bytes: number;
}
/**
 * A call site of all files.
 */
export interface SiteDiff {
  /**
   * The node of autograd's graph, of a stack that runs one: `frames` are then those of its forward operator, if known.
   */
  autograd_node?: string;
  /**
   * One for each file.
   */
  bytes: number[];
  /**
   * From the first file to the last.
   */
  change_bytes: number;
  /**
   * Allocations, one for each file.
   */
  count: number[];
  /**
   * The line that stands for it, then its callers, of the last file that has it.
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
 * A category of all files.
 */
export interface CategoryDiff {
  /**
   * One for each file.
   */
  bytes: number[];
  /**
   * From the first file to the last.
   */
  change_bytes: number;
  /**
   * Its name, such as `optimizer_state`.
   */
  name: string;
}
/**
 * A device of one file.
 */
export interface Side {
  /**
   * Bytes in blocks that tensors own, at that moment.
   */
  allocated_bytes: number;
  /**
   * Allocated bytes at the last entry.
   */
  end_allocated_bytes: number;
  /**
   * The entry after which it is compared; null before the first.
   */
  entry: number | null;
  /**
   * Complete iterations.
   */
  iterations: number;
  /**
   * The highest allocated bytes of the recording.
   */
  peak_allocated_bytes: number;
  /**
   * The highest requested bytes of the recording.
   */
  peak_requested_bytes: number;
  /**
   * The highest reserved bytes of the recording.
   */
  peak_reserved_bytes: number;
  /**
   * Requested bytes at that moment.
   */
  requested_bytes: number;
  /**
   * Reserved bytes at that moment.
   */
  reserved_bytes: number;
  /**
   * Whether the reserved bytes are unknown, as in a profiler's file. Absent where they are known.
   */
  reserved_is_unknown?: boolean;
}
/**
 * A setting that is not the same in all files.
 */
export interface SettingDiff {
  /**
   * Its key; those of tables have dots.
   */
  key: string;
  /**
   * One for each file; null where it is not recorded.
   */
  values: (boolean | number | string | {} | null)[];
}
