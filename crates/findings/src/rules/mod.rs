//! Findings: what a person should look at, each a rule of its own, with its evidence and, where it can be had, its saving.
//!
//! A saving is either the peak as it was less a peak that was replayed with the change, or an estimate and marked as one.

mod allocation_retries;
mod attention;
mod autocast;
mod checkpointing;
mod collected;
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

use evidence::Evidence;
pub use highwater_analysis::place::place;
use highwater_snapshot::{Profile, ProfileForm};

use highwater_analysis::Analysis;
use highwater_analysis::device::DeviceAnalysis;

/// How much it matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The program failed for it.
    Error,
    /// It costs memory, or will.
    Warning,
    /// Worth knowing: for reading the numbers, or where less is wanted.
    Info,
}

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Finding {
    /// A stable word for its kind.
    pub id: &'static str,
    /// How much it matters.
    pub severity: Severity,
    /// What it is, in one line.
    pub title: String,
    /// What it rests on.
    pub detail: String,
    /// What a change would bring, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub saving_bytes: Option<u64>,
    /// The saving is an estimate: nothing recorded can be replayed with the change.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub estimated: bool,
    /// What to change, where there is something.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub change: Option<String>,
}

impl Finding {
    fn new(id: &'static str, severity: Severity, title: impl Into<String>, detail: impl Into<String>) -> Self {
        let (title, detail) = (title.into(), detail.into());
        Self { id, severity, title, detail, saving_bytes: None, estimated: false, change: None }
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
}

const RULES: [Rule; 34] = [
    Rule { id: "oom", find: out_of_memory::out_of_memory },
    Rule { id: "allocation-retries", find: allocation_retries::retries },
    Rule { id: "device-imbalance", find: imbalance::imbalance },
    Rule { id: "growth", find: growing::growing },
    Rule { id: "collected-results", find: collected::collected_results },
    Rule { id: "garbage-collector", find: garbage::garbage },
    Rule { id: "freed-late", find: freed_late::freed_late },
    Rule { id: "gradients-kept", find: gradients::gradients_kept },
    Rule { id: "optimizer-intermediates", find: optimizer::intermediates },
    Rule { id: "loading-copies", find: loading::copies },
    Rule { id: "weights-twice", find: loading::twice },
    Rule { id: "data-on-device", find: inputs::data_on_device },
    Rule { id: "device-prefetch", find: inputs::prefetch },
    Rule { id: "logits-copies", find: logits::copies },
    Rule { id: "attention-matrices", find: attention::in_full },
    Rule { id: "one-hot", find: one_hot::one_hot },
    Rule { id: "autocast-cache", find: autocast::cache },
    Rule { id: "allocator-settings", find: settings::settings },
    Rule { id: "varying-shapes", find: inputs::varying_shapes },
    Rule { id: "empty-cache", find: empty_cache::empty_cache },
    Rule { id: "idle-stream", find: streams::free_on_another },
    Rule { id: "private-pools", find: reserved::private_pools },
    Rule { id: "reserved-unused", find: reserved::idle_cache },
    Rule { id: "free-at-dump", find: reserved::free_at_dump },
    Rule { id: "awaiting-free", find: reserved::awaiting_free },
    Rule { id: "checkpointing", find: checkpointing::checkpointing },
    Rule { id: "mixed-precision", find: precision::mixed_precision },
    Rule { id: "large-tensor", find: large_tensor::large_tensor },
    Rule { id: "full-precision-moments", find: moments::full_precision },
    Rule { id: "frozen-weights", find: weights::frozen },
    Rule { id: "batch-size", find: inputs::batch_size },
    Rule { id: "truncated", find: recording::truncated },
    Rule { id: "late-recording", find: recording::late },
    Rule { id: "no-stacks", find: recording::without_stacks },
];

/// Rules that take as long as all others together: each has a thread of its own.
const SLOW: [&str; 1] = ["allocator-settings"];

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

/// The findings of one device: the gravest first, and of those what brings most.
pub fn findings(analysis: &Analysis<'_>, device: &DeviceAnalysis<'_>) -> Vec<Finding> {
    findings_but(analysis, device, |_| false)
}

/// As [`findings`], without the kinds that are left out: they are not looked for.
pub fn findings_but(
    analysis: &Analysis<'_>,
    device: &DeviceAnalysis<'_>,
    is_left_out: impl Fn(&str) -> bool,
) -> Vec<Finding> {
    findings_beside(analysis, device, is_left_out, || ()).0
}

/// As [`findings_but`], with something else that is done while the slow rules run.
pub fn findings_beside<T>(
    analysis: &Analysis<'_>,
    device: &DeviceAnalysis<'_>,
    is_left_out: impl Fn(&str) -> bool,
    meanwhile: impl FnOnce() -> T,
) -> (Vec<Finding>, T) {
    let is_wanted = |rule: &&Rule| !is_left_out(rule.id) && device.profile.is_none_or(|p| holds_of(p, rule.id));
    let rules: Vec<&Rule> = RULES.iter().filter(is_wanted).collect();
    let (mut findings, done) = std::thread::scope(|scope| {
        // Where no thread can be had, a slow rule is one among the others.
        let aside = |rule: &Rule| {
            let find = rule.find;
            let thread = SLOW.contains(&rule.id).then(std::thread::Builder::new)?;
            thread.spawn_scoped(scope, move || find(&Evidence::new(analysis, device))).ok()
        };
        let begun: Vec<_> = rules.iter().map(|rule| aside(rule)).collect();
        let done = meanwhile();
        let evidence = Evidence::new(analysis, device);
        let find = |(rule, begun): (&&Rule, &Option<_>)| if begun.is_some() { None } else { (rule.find)(&evidence) };
        let found: Vec<Option<Finding>> = std::iter::zip(&rules, &begun).map(find).collect();
        let join = |begun: std::thread::ScopedJoinHandle<'_, Option<Finding>>| {
            begun.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        let findings = std::iter::zip(begun, found).filter_map(|(begun, found)| begun.map_or(found, join));
        (findings.collect::<Vec<Finding>>(), done)
    });
    // The one says what the other asks for.
    for (said, by) in SAID_BY {
        if findings.iter().any(|finding| by.contains(&finding.id)) {
            findings.retain(|finding| finding.id != said);
        }
    }
    findings.sort_by_key(|finding| (finding.severity, std::cmp::Reverse(finding.saving_bytes)));
    (findings, done)
}

/// Findings that others say better.
const SAID_BY: [(&str, &[&str]); 2] = [
    ("reserved-unused", &["allocator-settings"]),
    ("large-tensor", &["attention-matrices", "logits-copies", "one-hot", "data-on-device"]),
];

/// What does not hold of a profiler's trace: what is said of the allocator, and of how to record.
const NOT_OF_TRACES: [&str; 13] = [
    "idle-stream",
    "oom",
    "allocation-retries",
    "free-at-dump",
    "allocator-settings",
    "varying-shapes",
    "empty-cache",
    "private-pools",
    "reserved-unused",
    "awaiting-free",
    "batch-size",
    "late-recording",
    "no-stacks",
];

/// Whether a kind of finding may be told of a profiler's file. A memory timeline does not say which block is which.
fn holds_of(profile: &Profile, id: &str) -> bool {
    match profile.form {
        ProfileForm::ChromeTrace => !NOT_OF_TRACES.contains(&id),
        _ => id == "truncated",
    }
}
