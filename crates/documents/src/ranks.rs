//! `highwater-ranks`: the ranks of one job side by side, the odd ones marked and explained.

use serde::Serialize;

use crate::{CategoriesView, Document, Format, Version};

/// The ranks of a job.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RanksView {
    format: Format<Self>,
    version: Version<Self>,
    /// The answer: which ranks differ, by how much, and why.
    pub verdict: String,
    /// The ways in which the job is divided among its ranks, as far as its memory shows: `data`, `sharded`, `tensor`,
    /// `pipeline`, `expert`.
    pub parallel: Vec<&'static str>,
    /// The number of ranks of the job, if a manifest or a file gives it; there may be fewer files.
    pub world_size: Option<u32>,
    /// Every rank, by its number; each device of a process counts as a rank.
    pub ranks: Vec<RankView>,
    /// Ranks that hold about as much of the same, largest first; a rank that is an outlier is in a group of its own.
    pub groups: Vec<GroupView>,
    /// How evenly memory is spread.
    pub imbalance: ImbalanceView,
    /// The first request that failed in any rank.
    pub first_failure: Option<FirstFailureView>,
    /// Files that are not among `ranks`, or only in part, and why.
    pub unread: Vec<UnreadView>,
    /// Remarks on the limits of the comparison.
    pub notes: Vec<String>,
}

impl Document for RanksView {
    const FORMAT: &'static str = "highwater-ranks";
    const VERSION: u32 = 1;
}

/// A rank: a device of one recording.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RankView {
    /// Its number in the job; null if it is unknown.
    pub rank: Option<u32>,
    /// The host that it ran on, where that is known.
    pub host: Option<String>,
    /// Its file.
    pub file: String,
    /// CUDA ordinal.
    pub device: u32,
    /// Its part in the job, where memory or a manifest shows it, such as `pipeline stage 1 of 4`.
    pub role: Option<String>,
    /// The `id` of its group.
    pub group: usize,
    /// The highest allocated bytes; requested bytes where the sizes of blocks are estimates.
    pub peak_allocated_bytes: u64,
    /// The highest reserved bytes.
    pub peak_reserved_bytes: u64,
    /// Allocated at the dump.
    pub end_allocated_bytes: u64,
    /// Allocated at the peak, by category.
    pub categories: CategoriesView,
    /// Reserved and in no active block, at the peak.
    pub free_at_peak_bytes: u64,
    /// Requests that failed.
    pub oom: usize,
    /// Requests for which the allocator first had to release its cache.
    pub retries: usize,
    /// Complete iterations in the recording.
    pub iterations: usize,
    /// Trace entries.
    pub entries: u64,
    /// Where its peak is: `set-up` before the first iteration, `iteration`, or `afterwards`; null without iterations.
    pub peak_in: Option<&'static str>,
    /// Why it does not hold the whole run; absent if it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recorded: Option<String>,
    /// Whether it differs from the others of its part in the job.
    pub is_outlier: bool,
    /// Its difference from the median rank, taken apart, largest first.
    pub because: Vec<BecauseView>,
}

/// One cause of a difference.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BecauseView {
    /// The kind of cause: see `docs/ranks.md`.
    pub kind: &'static str,
    /// The call site or device that shows it best.
    pub r#where: Option<String>,
    /// Bytes more than the median rank; negative if fewer.
    pub delta_bytes: i64,
    /// The cause in words.
    pub sentence: String,
    /// Call sites that differ for this cause, largest difference first.
    pub call_sites: Vec<SiteDeltaView>,
}

/// A call site of two ranks.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SiteDeltaView {
    /// The site in words.
    pub place: String,
    /// Bytes at this rank's peak.
    pub bytes: u64,
    /// Bytes at the peak of the median rank.
    pub other_bytes: u64,
}

/// Ranks that hold about as much.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GroupView {
    /// Its number.
    pub id: usize,
    /// The numbers of its ranks, ascending; the places in `ranks` of those without a number are in `rows` alone.
    pub ranks: Vec<u32>,
    /// The places of its ranks in `ranks`.
    pub rows: Vec<usize>,
    /// The part in the job that they have in common.
    pub role: Option<String>,
    /// The median of their peaks.
    pub median_peak_allocated_bytes: u64,
    /// Whether they are outliers.
    pub is_outlier: bool,
}

/// The largest over the mean: 1 where all ranks hold as much.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ImbalanceView {
    /// Of the peaks of allocated bytes; null without ranks.
    pub allocated: Option<f64>,
    /// Of the peaks of reserved bytes.
    pub reserved: Option<f64>,
    /// The imbalance of each category that holds memory at the peak.
    pub by_category: Vec<CategoryImbalanceView>,
    /// Of the groups' medians, for each part of a pipeline.
    pub by_stage: Vec<StageImbalanceView>,
}

/// The imbalance of a category.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CategoryImbalanceView {
    /// Its name, such as `optimizer_state`.
    pub name: &'static str,
    /// The largest over the mean.
    pub largest_over_mean: f64,
    /// The rank that holds the most, as its place in `ranks`.
    pub largest_row: usize,
    /// Its bytes.
    pub largest_bytes: u64,
}

/// The imbalance within a stage.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StageImbalanceView {
    /// The stage in words.
    pub role: String,
    /// The largest peak over the mean peak of its ranks.
    pub allocated: f64,
    /// The mean peak.
    pub mean_peak_allocated_bytes: u64,
}

/// The first request that failed in any rank.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FirstFailureView {
    /// The rank; null where its number is unknown.
    pub rank: Option<u32>,
    /// Its place in `ranks`.
    pub row: usize,
    /// The entry.
    pub entry: u32,
    /// The time by that rank's clock.
    pub time_us: Option<i64>,
    /// The complete iterations before it.
    pub iteration: Option<u32>,
    /// The bytes of the request.
    pub requested_bytes: u64,
    /// Ranks that failed later, or at a time that cannot be compared.
    pub others: usize,
    /// How ranks were put in order: `clock` for clocks of one host, `iterations` for clocks set by common iterations,
    /// or `unknown`.
    pub ordered_by: &'static str,
}

/// A file that is not compared, or only in part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UnreadView {
    /// The file, or a rank that has none.
    pub file: String,
    /// Why.
    pub reason: String,
}

impl RanksView {
    /// The document of ranks; the rest is for the caller to fill in.
    pub fn new(verdict: String, ranks: Vec<RankView>) -> Self {
        Self {
            format: Format::default(),
            version: Version::default(),
            verdict,
            parallel: Vec::new(),
            world_size: None,
            ranks,
            groups: Vec::new(),
            imbalance: ImbalanceView { allocated: None, reserved: None, by_category: Vec::new(), by_stage: Vec::new() },
            first_failure: None,
            unread: Vec::new(),
            notes: Vec::new(),
        }
    }
}
