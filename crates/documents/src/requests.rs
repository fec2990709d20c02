//! `highwater-requests`: runs of a request program.

use highwater_allocator::program::{Options, Summary};
use highwater_units::{count, size};
use serde::Serialize;

use crate::{Document, Format, Version};

/// Runs of a request program, each with some settings on some memory.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RequestsView {
    format: Format<Self>,
    version: Version<Self>,
    /// The version whose rules apply.
    pub torch: TorchView,
    /// The rule for the addresses of segments: the requested rule, or the rule behind the figures.
    pub addresses: String,
    /// The program that ran.
    pub program: ProgramView,
    /// Each of the settings with each of the capacities, in the order given.
    pub runs: Vec<RunView>,
    /// Warnings that did not prevent the run.
    pub warnings: Vec<Warning>,
}

impl Document for RequestsView {
    const FORMAT: &'static str = "highwater-requests";
    const VERSION: u32 = 1;
}

/// The version of PyTorch whose rules were applied.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TorchView {
    /// The version.
    pub version: String,
    /// How it was chosen: `flag`, or `default` for the newest version with known rules.
    pub chosen_by: &'static str,
}

/// A program.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProgramView {
    /// The format of its file: `requests`, or `rmm-log`.
    pub kind: &'static str,
    /// Its rows.
    pub rows: usize,
}

/// Something odd.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Warning {
    /// A stable word for its kind.
    pub id: &'static str,
    /// A sentence.
    pub message: String,
    /// The number of times.
    pub count: u64,
    /// The first line concerned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
}

/// One run.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RunView {
    /// The settings.
    pub conf: String,
    /// The device's memory.
    pub capacity_bytes: u64,
    /// `fits` or `oom`.
    #[cfg_attr(feature = "schema", schemars(extend("enum" = ["fits", "oom"])))]
    pub outcome: &'static str,
    /// The row of the first request that failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oom_op: Option<usize>,
    /// The line of the log that this row was made of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oom_line: Option<u32>,
    /// The requested bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oom_requested_bytes: Option<u64>,
    /// The message that PyTorch would have printed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oom_message: Option<String>,
    /// The peak of allocated bytes.
    pub peak_allocated_bytes: u64,
    /// The highest bytes held from the driver.
    pub peak_reserved_bytes: u64,
    /// Second attempts.
    pub num_alloc_retries: u64,
    /// Requests that failed.
    pub num_ooms: u64,
    /// `exact`, or `address-sensitive`.
    pub confidence: &'static str,
    /// Why not exact.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl RequestsView {
    /// The document of runs.
    pub fn new(
        program: ProgramView,
        torch: TorchView,
        addresses: String,
        runs: Vec<RunView>,
        warnings: Vec<Warning>,
    ) -> Self {
        Self { format: Format::default(), version: Version::default(), torch, addresses, program, runs, warnings }
    }
}

impl RunView {
    /// A run on a machine. `others` are runs that differ in nothing but where the driver puts segments; `line_of` gives the line of a
    /// log that a row was made of.
    pub fn new(
        machine: &Options,
        summary: &Summary,
        others: &[Summary],
        line_of: impl FnOnce(usize) -> Option<u32>,
    ) -> Self {
        let figures = Figures::new(summary);
        let all: Vec<_> = std::iter::once(figures).chain(others.iter().map(Figures::new)).collect();
        let reason = all.iter().any(|other| *other != figures).then(|| spread(&all));
        let failure = summary.first_failure.as_ref();
        Self {
            conf: machine.conf.clone(),
            capacity_bytes: machine.capacity_bytes,
            outcome: if figures.fits { "fits" } else { "oom" },
            oom_op: failure.map(|failure| failure.op),
            oom_line: failure.and_then(|failure| line_of(failure.op)),
            oom_requested_bytes: failure.map(|failure| failure.requested_bytes),
            oom_message: failure.map(|failure| failure.message.clone()),
            peak_allocated_bytes: figures.peak_allocated_bytes,
            peak_reserved_bytes: figures.peak_reserved_bytes,
            num_alloc_retries: figures.num_alloc_retries,
            num_ooms: figures.num_ooms,
            confidence: if reason.is_some() { "address-sensitive" } else { "exact" },
            reason,
        }
    }
}

/// The figures that a run is judged by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Figures {
    fits: bool,
    peak_allocated_bytes: u64,
    peak_reserved_bytes: u64,
    num_alloc_retries: u64,
    num_ooms: u64,
}

impl Figures {
    fn new(summary: &Summary) -> Self {
        let stats = &summary.statistics;
        Self {
            fits: summary.first_failure.is_none(),
            peak_allocated_bytes: stats.allocated_bytes.all().peak,
            peak_reserved_bytes: stats.reserved_bytes.all().peak,
            num_alloc_retries: stats.num_alloc_retries,
            num_ooms: stats.num_ooms,
        }
    }
}

/// In which figures runs differ, and how far.
fn spread(all: &[Figures]) -> String {
    let range = |of: fn(&Figures) -> u64, show: fn(u64) -> String, what: &str| {
        let (least, most) = (all.iter().map(of).min()?, all.iter().map(of).max()?);
        let (from, to) = (show(least), show(most));
        let text = if from == to {
            format!("{to} (or up to {} less) {what}", show(most - least))
        } else {
            format!("{from} to {to} {what}")
        };
        (least != most).then_some(text)
    };
    let fitting = all.iter().filter(|figures| figures.fits).count();
    let outcome = (1..all.len()).contains(&fitting).then(|| format!("it fits in {fitting} of them"));
    let ranges = [
        range(|figures| figures.peak_reserved_bytes, size, "reserved at the peak"),
        range(|figures| figures.peak_allocated_bytes, size, "allocated at the peak"),
        range(|figures| figures.num_alloc_retries, count, "retries"),
        range(|figures| figures.num_ooms, count, "failures"),
    ];
    let found: Vec<_> = outcome.into_iter().chain(ranges.into_iter().flatten()).collect();
    format!("over {} orders of addresses: {}", all.len(), found.join(", "))
}
