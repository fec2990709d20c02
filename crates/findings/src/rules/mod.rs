//! Findings: what a person should look at, each a rule of its own, with its evidence and, where it can be had, its
//! saving.
//!
//! A saving is either the peak as it was less a peak that was replayed with the change, or an estimate and marked as
//! one.

mod allocation_retries;
mod attention;
mod autocast;
mod checkpointing;
mod collected;
mod driver;
mod empty_cache;
mod evidence;
mod freed_late;
mod garbage;
mod gradients;
mod growing;
mod imbalance;
mod inputs;
mod large_tensor;
mod loading;
mod logits;
mod moments;
mod one_hot;
mod optimizer;
mod out_of_memory;
mod precision;
mod recording;
mod releases;
mod reserved;
mod settings;
mod streams;
mod weights;

use std::collections::BTreeMap;
use std::sync::OnceLock;

pub use allocation_retries::retries_of as retries;
use evidence::Evidence;
pub use highwater_analysis::place::place;
use highwater_snapshot::{Profile, ProfileForm, Snapshot};

use highwater_analysis::device::DeviceAnalysis;
use highwater_analysis::{Analysis, Reconstruction, parallel};
use highwater_whatif::Study;

/// The finding that replays.
const ALLOCATOR_SETTINGS: &str = "allocator-settings";

/// Less memory that lies unused is not worth a word, nor is less that belongs to somebody else.
const LEAST_WORTH_BYTES: u64 = 64 << 20;

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The program failed because of it.
    Error,
    /// It costs memory, or will.
    Warning,
    /// Worth knowing, to read the numbers or to save more.
    Info,
}

impl Severity {
    /// The word in documents and tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Info => "info",
        }
    }
}

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Finding {
    /// A stable word for its kind.
    pub id: &'static str,
    /// Its severity.
    pub severity: Severity,
    /// The finding in one line.
    pub title: String,
    /// The evidence.
    pub detail: String,
    /// The saving of the change, if it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub saving_bytes: Option<u64>,
    /// The saving is an estimate: nothing recorded can be replayed with the change.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub estimated: bool,
    /// The advice, if there is any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub change: Option<String>,
    /// The allocator settings that it recommends, as in `PYTORCH_CUDA_ALLOC_CONF`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conf: Option<String>,
}

impl Finding {
    fn new(id: &'static str, severity: Severity, title: impl Into<String>, detail: impl Into<String>) -> Self {
        let (title, detail) = (title.into(), detail.into());
        Self { id, severity, title, detail, saving_bytes: None, estimated: false, change: None, conf: None }
    }

    /// With what a change would bring, by a replay.
    fn saves(self, bytes: u64) -> Self {
        Self { saving_bytes: Some(bytes), ..self }
    }

    /// With what a change would bring, by estimate.
    fn saves_about(self, bytes: u64) -> Self {
        Self { saving_bytes: Some(bytes), estimated: true, ..self }
    }

    /// With what to change.
    fn change(self, change: impl Into<String>) -> Self {
        Self { change: Some(change.into()), ..self }
    }
}

/// A kind of finding.
struct Rule {
    id: &'static str,
    find: fn(&Evidence<'_>) -> Option<Finding>,
    /// It holds of a profiler's trace, too.
    is_of_traces: bool,
    /// It takes as long as all others together, and begins first.
    is_slow: bool,
}

const fn rule(id: &'static str, find: fn(&Evidence<'_>) -> Option<Finding>) -> Rule {
    Rule { id, find, is_of_traces: true, is_slow: false }
}

impl Rule {
    /// It speaks of the allocator, or of how to record: a profiler's trace knows neither.
    const fn not_of_traces(self) -> Rule {
        Rule { is_of_traces: false, ..self }
    }

    const fn slow(self) -> Rule {
        Rule { is_slow: true, ..self }
    }

    /// Whether it may be told of a profiler's file. A memory timeline does not say which block is which.
    fn holds_of(&self, profile: &Profile) -> bool {
        match profile.form {
            ProfileForm::ChromeTrace => self.is_of_traces,
            _ => self.id == "truncated",
        }
    }
}

const RULES: &[Rule] = &[
    rule("oom", out_of_memory::out_of_memory).not_of_traces(),
    rule("allocation-retries", allocation_retries::retries).not_of_traces(),
    rule("imbalance", imbalance::imbalance),
    rule("growth", growing::growing),
    rule("collected-results", collected::collected_results),
    rule("garbage-collector", garbage::garbage),
    rule("freed-late", freed_late::freed_late),
    rule("gradients-kept", gradients::gradients_kept),
    rule("optimizer-intermediates", optimizer::intermediates),
    rule("loading-copies", loading::copies),
    rule("weights-twice", loading::twice),
    rule("data-on-device", inputs::data_on_device),
    rule("device-prefetch", inputs::prefetch),
    rule("logits-copies", logits::copies),
    rule("attention-matrices", attention::in_full),
    rule("one-hot", one_hot::one_hot),
    rule("autocast-cache", autocast::cache),
    rule(ALLOCATOR_SETTINGS, settings::settings).not_of_traces().slow(),
    rule("varying-shapes", inputs::varying_shapes).not_of_traces(),
    rule("empty-cache", empty_cache::empty_cache).not_of_traces(),
    rule("idle-stream", streams::free_on_another).not_of_traces(),
    rule("private-pools", reserved::private_pools).not_of_traces(),
    rule("reserved-unused", reserved::idle_cache).not_of_traces(),
    rule("free-at-dump", reserved::free_at_dump).not_of_traces(),
    rule("awaiting-free", reserved::awaiting_free).not_of_traces(),
    rule("checkpointing", checkpointing::checkpointing),
    rule("mixed-precision", precision::mixed_precision),
    rule("large-tensor", large_tensor::large_tensor),
    rule("full-precision-moments", moments::full_precision),
    rule("frozen-weights", weights::frozen),
    rule("batch-size", inputs::batch_size).not_of_traces(),
    rule("communicators", driver::communicators).not_of_traces(),
    rule("second-allocator", driver::second_allocator).not_of_traces(),
    rule("library-workspaces", driver::workspaces).not_of_traces(),
    rule("library-growth", driver::growing).not_of_traces(),
    rule("idle-context", driver::idle_context).not_of_traces(),
    rule("pinned-memory", driver::pinned).not_of_traces(),
    rule("truncated", recording::truncated),
    rule("late-recording", recording::late).not_of_traces(),
    rule("no-stacks", recording::without_stacks).not_of_traces(),
];

/// Every kind of finding; `docs/findings/` has a page for each.
pub const IDS: [&str; RULES.len()] = {
    let mut ids = [""; RULES.len()];
    let mut i = 0;
    while i < ids.len() {
        ids[i] = RULES[i].id;
        i += 1;
    }
    ids
};

/// The findings of one device: the gravest first, of those unbounded growth, then the largest saving.
pub fn findings(analysis: &Analysis<'_>, device: &DeviceAnalysis<'_>) -> Vec<Finding> {
    findings_but(analysis, device, |_| false)
}

/// As [`findings`], without the kinds that are left out: they are not looked for.
pub fn findings_but(
    analysis: &Analysis<'_>,
    device: &DeviceAnalysis<'_>,
    is_left_out: impl Fn(&str) -> bool,
) -> Vec<Finding> {
    findings_beside(analysis, device, OnceLock::new(), is_left_out, || ()).0
}

/// What the slowest finding asks of a recording, to be made while stacks are read: the program of each device, where other settings may
/// help it.
pub fn studies<'a, 'b: 'a>(
    snapshot: &Snapshot,
    devices: impl Iterator<Item = &'a Reconstruction<'b>>,
    is_left_out: impl Fn(&str) -> bool,
) -> BTreeMap<u32, Option<Study>> {
    let wanted = devices.filter(|device| device.profile.is_none() && !is_left_out(ALLOCATOR_SETTINGS));
    wanted.map(|device| (device.device, settings::study(snapshot, device))).collect()
}

/// As [`findings_but`], with something else that is done meanwhile, and the one of [`studies`] if it is there.
pub fn findings_beside<T>(
    analysis: &Analysis<'_>,
    device: &DeviceAnalysis<'_>,
    study: OnceLock<Option<Study>>,
    is_left_out: impl Fn(&str) -> bool,
    meanwhile: impl FnOnce() -> T,
) -> (Vec<Finding>, T) {
    let is_wanted = |rule: &&Rule| !is_left_out(rule.id) && device.profile.is_none_or(|p| rule.holds_of(p));
    let mut rules: Vec<(usize, &Rule)> = RULES.iter().filter(is_wanted).enumerate().collect();
    rules.sort_by_key(|(_, rule)| !rule.is_slow);
    let evidence = Evidence::new(analysis, device, study);
    let find_all = || parallel::map(&rules, |&(place, rule)| (place, (rule.find)(&evidence)));
    let (mut found, done) = parallel::both(find_all, meanwhile);
    found.sort_by_key(|&(place, _)| place);
    let mut findings: Vec<Finding> = found.into_iter().filter_map(|(_, finding)| finding).collect();
    // The one says what the other asks for.
    for (said, by) in SAID_BY {
        if findings.iter().any(|finding| by.contains(&finding.id)) {
            findings.retain(|finding| finding.id != said);
        }
    }
    // What grows without bound fails in the end, however little it is at the peak that was recorded.
    findings.sort_by_key(|finding| (finding.severity, finding.id != "growth", std::cmp::Reverse(finding.saving_bytes)));
    (findings, done)
}

/// Findings that others say better.
const SAID_BY: [(&str, &[&str]); 2] = [
    ("reserved-unused", &[ALLOCATOR_SETTINGS]),
    ("large-tensor", &["attention-matrices", "logits-copies", "one-hot", "data-on-device"]),
];
