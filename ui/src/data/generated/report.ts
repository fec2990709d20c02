/** Made by `make schemas` of the comments in crates/documents: change these. */

/**
 * The severity of a finding.
 */
export type Severity = 'error' | 'warning' | 'info';

/**
 * The memory of a recording: peaks, call sites, categories, findings. Made by `highwater report --format json`.
 */
export interface Report {
  /**
   * One for each device; they are never summed.
   */
  devices: Device[];
  /**
   * All memory of the process on its GPUs, where the driver was recorded.
   */
  driver?: Driver;
  /**
   * The name of the document.
   */
  format: 'highwater-report';
  /**
   * Pinned host memory, where it was recorded.
   */
  host?: Host;
  /**
   * The allocator's settings, in the order of the file.
   */
  settings: {
    [k: string]: unknown;
  };
  /**
   * The input file.
   */
  source: Source;
  /**
   * Durations, if requested.
   */
  timings?: Timings;
  /**
   * The version of PyTorch that wrote it, as far as the file shows.
   */
  torch: Torch;
  /**
   * The answer in one sentence.
   */
  verdict: string;
  /**
   * The version of its shape.
   */
  version: 1;
  /**
   * Warnings.
   */
  warnings: Warning[];
}
/**
 * One device.
 */
export interface Device {
  /**
   * The moment of the largest allocated bytes.
   */
  at_peak: AtPeak;
  /**
   * How exactly allocated and active bytes are known.
   */
  block_sizes: BlockSizes;
  /**
   * The level that reserved memory could not pass, where a request failed.
   */
  ceiling?: Ceiling;
  /**
   * CUDA ordinal.
   */
  device: number;
  /**
   * At the dump, as `memory_stats()` says.
   */
  end: EndTotals;
  /**
   * Number of trace entries.
   */
  entries: number;
  /**
   * The totals over the trace, for a small picture.
   */
  envelope: Envelope;
  /**
   * The findings.
   */
  findings: Finding[];
  /**
   * Free memory at the dump.
   */
  fragmentation: Fragmentation;
  /**
   * Memory that iterations leave behind, by call site.
   */
  growth: Growth[];
  /**
   * The first and the last iteration that count for growth; null if there are too few.
   *
   * @minItems 2
   * @maxItems 2
   */
  growth_counted: [number, number] | null;
  /**
   * Where in the viewer that growth is seen.
   */
  growth_places: ViewerPlace[];
  /**
   * Whether a history was recorded; without one, only the state at the dump is known.
   */
  has_history: boolean;
  /**
   * Each iteration.
   */
  iterations: Iteration[];
  /**
   * The word for them: `iterations`, `tokens` or `sampling steps`.
   */
  iterations_are: string;
  /**
   * How iterations were found: `highwater.step()`, `optimizer steps` or `repetition in the trace`.
   */
  iterations_by: string;
  /**
   * Out-of-memory events.
   */
  oom: Oom[];
  /**
   * The maximum of each total over the recording.
   */
  peak: Peak;
  /**
   * The part of the run that they hold.
   */
  recorded: Recorded;
  /**
   * Where there are none, the forward passes that were recorded instead.
   */
  seen?: string;
  /**
   * Before the first entry.
   */
  start: Totals;
}
/**
 * Live memory at the peak.
 */
export interface AtPeak {
  /**
   * Active bytes at that moment.
   */
  active_bytes: number;
  /**
   * Allocated bytes at that moment.
   */
  allocated_bytes: number;
  /**
   * Which total's peak it is.
   */
  by: string;
  /**
   * Bytes by call site, of the total named by `by`, largest first.
   */
  call_sites: CallSite[];
  /**
   * Bytes by category, of the total named by `by`, which is their sum.
   */
  categories: Categories;
  /**
   * Microseconds since the first entry with a known time.
   */
  elapsed_us: number | null;
  /**
   * The entry after which it is first reached; null if it is before the first entry.
   */
  entry: number | null;
  /**
   * The iteration that it falls in.
   */
  iteration: number | null;
  /**
   * The phase of that iteration.
   */
  phase: string | null;
  /**
   * Requested bytes at that moment.
   */
  requested_bytes: number;
  /**
   * Reserved bytes at that moment.
   */
  reserved_bytes: number;
  /**
   * The annotated scopes around it, outermost first.
   */
  scopes: string[];
  /**
   * The time of that peak.
   */
  time_us: number | null;
  /**
   * Why much is `unknown`, if it is.
   */
  unknown_because?: string;
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
 * How exactly the sizes of blocks are known. Allocated and active bytes depend on them.
 */
export interface BlockSizes {
  /**
   * `exact`, `bounds` or `estimate`.
   */
  known: 'exact' | 'bounds' | 'estimate';
  /**
   * Why they are not exact.
   */
  reason?: string;
}
/**
 * The level that reserved memory could not pass, for a line in a picture.
 */
export interface Ceiling {
  /**
   * The level.
   */
  bytes: number;
  /**
   * Its label, with the number: `limit below 8.12 GiB` or `available 7.91 GiB`.
   */
  label: string;
}
/**
 * The totals of a device at the dump, as in `torch.cuda.memory_stats()`: `*_bytes.all.current`.
 */
export interface EndTotals {
  /**
   * Allocated, or awaiting free.
   */
  active_bytes: number;
  /**
   * In blocks that a tensor owns.
   */
  allocated_bytes: number;
  /**
   * Free, in segments that are partly in use; expandable segments do not count.
   */
  inactive_split_bytes: number;
  /**
   * Requested, of active blocks.
   */
  requested_bytes: number;
  /**
   * Held from the driver.
   */
  reserved_bytes: number;
}
/**
 * The highest totals in equal parts of the trace, in order: a small picture that keeps every peak.
 */
export interface Envelope {
  /**
   * The total named by `at_peak.by`.
   */
  bytes: number[];
  /**
   * Reserved bytes.
   */
  reserved_bytes: number[];
}
/**
 * A finding, with its place in the viewer.
 */
export interface Finding {
  /**
   * The advice, if there is any.
   */
  change?: string;
  /**
   * The allocator settings that it recommends, as in `PYTORCH_CUDA_ALLOC_CONF`.
   */
  conf?: string;
  /**
   * The evidence.
   */
  detail: string;
  /**
   * The saving is an estimate: nothing recorded can be replayed with the change.
   */
  estimated?: boolean;
  /**
   * A stable word for its kind.
   */
  id: string;
  /**
   * Where in the viewer it is seen.
   */
  places: ViewerPlace[];
  /**
   * The saving of the change, if it is known.
   */
  saving_bytes?: number;
  /**
   * Its severity.
   */
  severity: Severity;
  /**
   * The finding in one line.
   */
  title: string;
}
/**
 * A place of the viewer.
 */
export interface ViewerPlace {
  /**
   * The allocator settings to ask the simulator about.
   */
  conf?: string;
  /**
   * The entry to show.
   */
  cursor?: number;
  /**
   * The words to search for.
   */
  query?: string;
  /**
   * The entries to select.
   */
  selection?: Selection;
  /**
   * The view: `timeline`, `state`, `segments`, `stacks` or `what-if`.
   */
  view: 'timeline' | 'state' | 'segments' | 'stacks' | 'what-if';
  /**
   * The words on the button that leads there.
   */
  words: string;
}
/**
 * A range of entries.
 */
export interface Selection {
  /**
   * The first entry.
   */
  from: number;
  /**
   * The entry after the last.
   */
  to: number;
}
/**
 * Free memory at the dump; each measure is defined in `Fragmentation`.
 */
export interface Fragmentation {
  /**
   * Reserved and in no active block, at the peak.
   */
  free_at_peak_bytes: number;
  /**
   * Reserved and in no active block.
   */
  free_bytes: number;
  /**
   * Of the reserved bytes, the share that is free.
   */
  free_share: number | null;
  /**
   * In segments that are partly in use, expandable ones not counted: PyTorch's own measure.
   */
  inactive_split_bytes: number;
  /**
   * The largest free block.
   */
  largest_free_block_bytes: number;
  /**
   * Free bytes on streams other than the main one.
   */
  other_streams_free_bytes: number;
  /**
   * Free bytes in private pools.
   */
  private_pool_free_bytes: number;
  /**
   * In segments with nothing active: `empty_cache()` releases them.
   */
  releasable_bytes: number;
  /**
   * Active bytes beyond the requested ones, at the peak.
   */
  rounding_at_peak_bytes: number;
  /**
   * Active bytes beyond the requested ones.
   */
  rounding_bytes: number;
  /**
   * Of the free bytes, the share outside the largest free block.
   */
  scattered_share: number | null;
  /**
   * Reserved less requested bytes, at the peak: the free and the rounding bytes of that moment.
   */
  unused_at_peak_bytes: number;
}
/**
 * Memory that iterations leave behind at one call site.
 */
export interface Growth {
  /**
   * The node of autograd's graph, of a stack that runs one: `frames` are then those of its forward operator, if known.
   */
  autograd_node?: string;
  /**
   * Bytes left behind, of all counted iterations.
   */
  bytes: number;
  /**
   * Mean bytes left behind per iteration.
   */
  bytes_per_iteration: number;
  /**
   * Allocations left behind.
   */
  count: number;
  /**
   * Iterations that were counted.
   */
  counted: number;
  /**
   * The line, then its callers.
   */
  frames: Frame[];
  /**
   * Iterations that left something.
   */
  iterations: number;
  /**
   * The words for the site where there is no frame.
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
 * One iteration.
 */
export interface Iteration {
  /**
   * Whether it was recorded from beginning to end.
   */
  complete: boolean;
  /**
   * Allocated bytes at its end.
   */
  end_allocated_bytes: number;
  /**
   * The upper bound, if it is higher.
   */
  end_allocated_bytes_at_most?: number;
  /**
   * Last entry.
   */
  end_entry: number;
  /**
   * Requested bytes at its end.
   */
  end_requested_bytes: number;
  /**
   * The highest allocated bytes.
   */
  peak_allocated_bytes: number;
  /**
   * The upper bound, if it is higher.
   */
  peak_allocated_bytes_at_most?: number;
  /**
   * Bytes by category after `peak_entry`, of the total named by `AtPeakView::by`; absent where there is no such entry.
   */
  peak_categories?: Categories;
  /**
   * The entry of the highest bytes of the total named by `AtPeakView::by`.
   */
  peak_entry: number | null;
  /**
   * The highest requested bytes.
   */
  peak_requested_bytes: number;
  /**
   * The highest reserved bytes.
   */
  peak_reserved_bytes: number;
  /**
   * Its phases, in order.
   */
  phases: Phase[];
  /**
   * First entry.
   */
  start_entry: number;
}
/**
 * A run of one phase.
 */
export interface Phase {
  /**
   * Last entry.
   */
  end_entry: number;
  /**
   * `forward`, `backward` or `optimizer`.
   */
  name: string;
  /**
   * The highest allocated bytes.
   */
  peak_allocated_bytes: number;
  /**
   * The highest requested bytes.
   */
  peak_requested_bytes: number;
  /**
   * First entry.
   */
  start_entry: number;
}
/**
 * One out-of-memory event.
 */
export interface Oom {
  /**
   * In active blocks at that moment.
   */
  active_bytes: number;
  /**
   * In blocks that tensors own, at that moment.
   */
  allocated_bytes: number;
  /**
   * Causes that contribute.
   */
  also: string[];
  /**
   * The node of autograd's graph, of a stack that runs one: `frames` are then those of its forward operator, if known.
   */
  autograd_node?: string;
  /**
   * Memory available to this process: reserved, plus free on the device.
   */
  available_bytes: number | null;
  /**
   * Why it failed: one of the causes of `highwater explain`.
   */
  cause: string;
  /**
   * Free memory that the driver reported.
   */
  device_free_bytes: number | null;
  /**
   * The entry.
   */
  entry: number;
  /**
   * Why it failed, in words.
   */
  explanation: string;
  /**
   * The stack of the request.
   */
  frames: Frame[];
  /**
   * In use at that moment.
   */
  live_requested_bytes: number;
  /**
   * The program's own first line, where `frames` begin in a library.
   */
  own_frame?: Frame;
  /**
   * The call site in words, as every table shows it.
   */
  place: string;
  /**
   * Where in the viewer it is seen.
   */
  places: ViewerPlace[];
  /**
   * The request, rounded.
   */
  requested_bytes: number;
  /**
   * Reserved at that moment.
   */
  reserved_bytes: number;
  /**
   * Bytes requested from the driver.
   */
  segment_bytes: number;
  /**
   * The time.
   */
  time_us: number | null;
}
/**
 * The maximum of each total over the recording, and the entry after which it is first reached (null: before the first).
 */
export interface Peak {
  /**
   * Allocated bytes and bytes that wait for their free; the lower bound, likewise.
   */
  active_bytes: number;
  /**
   * The upper bound of the active bytes, if it is higher.
   */
  active_bytes_at_most?: number;
  /**
   * Where the active bytes are highest.
   */
  active_entry: number | null;
  /**
   * In blocks that tensors own; the lower bound if `BlockSizesView::known` is `bounds`.
   */
  allocated_bytes: number;
  /**
   * The upper bound of the allocated bytes, if it is higher.
   */
  allocated_bytes_at_most?: number;
  /**
   * Where the allocated bytes are highest.
   */
  allocated_entry: number | null;
  /**
   * Requested.
   */
  requested_bytes: number;
  /**
   * Where the requested bytes are highest.
   */
  requested_entry: number | null;
  /**
   * Held from the driver.
   */
  reserved_bytes: number;
  /**
   * Where the reserved bytes are highest.
   */
  reserved_entry: number | null;
}
/**
 * The part of the run that the trace holds.
 */
export interface Recorded {
  /**
   * Advice for a complete recording.
   */
  advice?: string;
  /**
   * Why it does not hold the whole run, by name: see `Cause::name`.
   */
  cause?: string;
  /**
   * Nothing was there before the first entry.
   */
  from_start: boolean;
  /**
   * Why, in words.
   */
  reason: string | null;
  /**
   * Entries were lost: the ring buffer wrapped, or the file was cut.
   */
  truncated: boolean;
}
/**
 * The totals of `memory_stats()`, in bytes, at one moment.
 */
export interface Totals {
  /**
   * `active_bytes`: allocated bytes and bytes that wait for their free; the lower bound, likewise.
   */
  active_bytes: number;
  /**
   * `allocated_bytes`: in blocks that a tensor owns; the lower bound if the sizes of blocks have bounds.
   */
  allocated_bytes: number;
  /**
   * `requested_bytes`: requested, of active blocks.
   */
  requested_bytes: number;
  /**
   * `reserved_bytes`: held from the driver.
   */
  reserved_bytes: number;
}
/**
 * The memory of the process on its GPUs.
 */
export interface Driver {
  /**
   * Calls of the driver that were seen.
   */
  calls: number;
  /**
   * Each GPU on which the process has memory.
   */
  cards: CardUse[];
  /**
   * Times in which nothing was recorded.
   */
  gaps: DriverGap[];
  /**
   * The GPU that a dry run imitated; absent for a real one.
   */
  imitated?: string;
  /**
   * The number of calls in the file. Of the other calls the file has only memory that is still live.
   */
  kept: number;
  /**
   * Managed allocations of which a profiler says when they were touched, the largest first.
   */
  touched?: Touched[];
  /**
   * Calls without a Python stack because it would have taken too long to get.
   */
  without_python: number;
  /**
   * Kernels and copies, where a profiler counted them.
   */
  work?: Work[];
}
/**
 * A process's memory on a GPU.
 */
export interface CardUse {
  /**
   * The GPU's memory, if it is known.
   */
  capacity_bytes: number | null;
  /**
   * The sum beside NVML's figure for the process, at each moment when NVML was read.
   */
  compared: Compared[];
  /**
   * CUDA ordinal.
   */
  device: number;
  /**
   * The use at the dump.
   */
  end_bytes: number;
  /**
   * Whether it is the machine's memory, so that context, code, streams and graphs were not measured: other programs change the free memory, too.
   */
  is_machines?: boolean;
  /**
   * The moment of the highest use, of all owners together.
   */
  peak: CardMoment;
}
/**
 * The sum, and NVML's figure at the same moment.
 */
export interface Compared {
  /**
   * The sum over the owners that count; none of them is computed from NVML's figure.
   */
  bytes: number;
  /**
   * NVML's figure less the sum: the remainder.
   */
  left_bytes: number;
  /**
   * The program's name for the moment.
   */
  mark: string;
  /**
   * NVML's figure of the process.
   */
  nvml_bytes: number;
  /**
   * When, in microseconds since the Unix epoch.
   */
  time_us: number;
}
/**
 * A process's memory on a GPU at a moment.
 */
export interface CardMoment {
  /**
   * The sum over the owners that count.
   */
  bytes: number;
  /**
   * The owners, the largest first; those that do not count come last.
   */
  owners: Owner[];
  /**
   * When, in microseconds since the Unix epoch.
   */
  time_us: number;
}
/**
 * Memory of one owner.
 */
export interface Owner {
  /**
   * Live allocations, or changes that were measured.
   */
  allocations: number;
  /**
   * Bytes; negative if more was freed than the recording saw allocated.
   */
  bytes: number;
  /**
   * Whether it is part of the sum.
   */
  counts: boolean;
  /**
   * The library, where the role does not say it.
   */
  library?: string;
  /**
   * Its kind: `pytorch`, `library`, `code`, `kernels`, `graphs`, `streams`, `context`; `managed`, `pinned` and `unexplained` do not count.
   */
  role: string;
  /**
   * By call site, the most bytes first.
   */
  sites: DriverSite[];
  /**
   * The words for it.
   */
  title: string;
}
/**
 * Live allocations of one line of the program and one function of the library.
 */
export interface DriverSite {
  /**
   * Allocations.
   */
  allocations: number;
  /**
   * Bytes that were requested.
   */
  bytes: number;
  /**
   * The function of the library that the program, or another library, called.
   */
  function?: string;
  /**
   * The line of the program's own: file, line, function.
   */
  line?: DriverLine;
  /**
   * The native stack of its first allocation, innermost first, if the site is one of the owner's 20 largest.
   */
  native?: DriverFrame[];
  /**
   * The operator of PyTorch around it.
   */
  operator?: string;
  /**
   * The program's named ranges (NVTX) around it, the outermost first.
   */
  scope?: string;
}
/**
 * A line of Python.
 */
export interface DriverLine {
  /**
   * The file.
   */
  filename: string;
  /**
   * Its line.
   */
  line: number;
  /**
   * The function.
   */
  name: string;
  /**
   * Whether it is where the main thread was: the thread that called the driver runs no Python.
   */
  of_main_thread: boolean;
}
/**
 * A native frame.
 */
export interface DriverFrame {
  /**
   * The function as the library exports it, C++ mangled; empty if it does not.
   */
  function: string;
  /**
   * The library's file.
   */
  library: string;
}
/**
 * A time in which the driver was not recorded.
 */
export interface DriverGap {
  /**
   * When it began, in microseconds since the Unix epoch.
   */
  from_us: number;
  /**
   * When it ended; null if it did not.
   */
  to_us: number | null;
  /**
   * Why.
   */
  why: string;
}
/**
 * A managed allocation, and when it was touched.
 */
export interface Touched {
  /**
   * Its first byte.
   */
  address: number;
  /**
   * Its size.
   */
  bytes: number;
  /**
   * CUDA ordinal.
   */
  device: number;
  /**
   * When it was touched last, in microseconds since the Unix epoch.
   */
  last_us: number;
  /**
   * The call site in words, if it is known.
   */
  site?: string;
  /**
   * Its accesses, the last one first.
   */
  touches: Touch[];
  /**
   * From then to the end of the recording, in microseconds.
   */
  untouched_us: number;
}
/**
 * Accesses of one kind.
 */
export interface Touch {
  /**
   * The bytes that were moved.
   */
  bytes: number;
  /**
   * How many.
   */
  count: number;
  /**
   * When the last one ended, in microseconds since the Unix epoch.
   */
  last_us: number;
  /**
   * The direction in which pages moved, or the processor that faulted.
   */
  what: string;
}
/**
 * Work of a device, of one kind.
 */
export interface Work {
  /**
   * The bytes that were copied.
   */
  bytes: number;
  /**
   * Their number.
   */
  count: number;
  /**
   * CUDA ordinal.
   */
  device: number;
  /**
   * When the last ended, in microseconds since the Unix epoch.
   */
  last_us: number;
  /**
   * `kernels`, or the direction of the copy.
   */
  what: string;
}
/**
 * Pinned host memory at the dump.
 */
export interface Host {
  /**
   * In use.
   */
  allocated_bytes: number;
  /**
   * Number of trace entries.
   */
  entries: number;
  /**
   * Held from the system.
   */
  reserved_bytes: number;
}
/**
 * The input file.
 */
export interface Source {
  /**
   * Bytes of pickle or JSON, decompressed.
   */
  bytes: number;
  /**
   * `pickle protocol 4`, `JSON`.
   */
  encoding: string;
  /**
   * Whether the input ended too early.
   */
  is_cut: boolean;
  /**
   * The kind of the profiler's file: `chrome_trace`, `memory_timeline_raw`, `memory_timeline`.
   */
  profile?: string;
  /**
   * The same in words.
   */
  profile_name?: string;
}
/**
 * Seconds of wall time.
 */
export interface Timings {
  /**
   * From columns to the report.
   */
  analyse_secs: number;
  /**
   * From bytes to columns.
   */
  read_secs: number;
}
/**
 * The version that the file shows.
 */
export interface Torch {
  /**
   * Whether the version is certain.
   */
  known: boolean;
  /**
   * A version, or a span such as `2.10 to 2.11`; `unknown` of a profiler's file.
   */
  version: string;
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
