//! Findings: what a person should look at, each a small type of its own kind.

mod freed_late;

use highwater_snapshot::Snapshot;

use crate::Analysis;
use crate::callsite::Site;
use crate::device::DeviceAnalysis;
use crate::growth::Growth;
use crate::oom::{Cause, OutOfMemory};
use crate::units::{count, counted, percent, size};

/// How much it matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The program failed for it.
    Error,
    /// It costs memory, or will.
    Warning,
    /// Worth knowing for reading the numbers.
    Info,
}

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
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
    /// What to change, where there is something.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub change: Option<String>,
}

/// Every kind of finding; `docs/findings/` has a page for each.
pub const IDS: [&str; 9] = [
    "oom",
    "growth",
    "freed-late",
    "private-pools",
    "reserved-unused",
    "awaiting-free",
    "truncated",
    "late-recording",
    "no-stacks",
];

/// The findings of one device, the gravest first.
pub fn findings(analysis: &Analysis<'_>, device: &DeviceAnalysis<'_>) -> Vec<Finding> {
    let mut findings: Vec<Finding> = Vec::new();
    findings.extend(device.oom.first().map(|first| out_of_memory(device, first)));
    findings.extend(growing(analysis, device));
    findings.extend(freed_late::freed_late(analysis, device));
    findings.extend(private_pools(device));
    findings.extend(idle_cache(device));
    findings.extend(awaiting_free(analysis.snapshot, device));
    findings.extend(unseen(device));
    findings.extend(without_stacks(device));
    findings.sort_by_key(|finding| finding.severity);
    findings
}

fn out_of_memory(device: &DeviceAnalysis<'_>, first: &OutOfMemory) -> Finding {
    let others = device.oom.len() - 1;
    let more = if others == 0 { String::new() } else { format!(", and {} more", counted(others, "time", "times")) };
    Finding {
        id: "oom",
        severity: Severity::Error,
        title: format!("out of memory at entry {}{more}", count(first.entry.get())),
        detail: explain(first),
        saving_bytes: None,
        change: None,
    }
}

/// Why a request failed, in words.
pub fn explain(oom: &OutOfMemory) -> String {
    let asked = size(oom.requested_bytes);
    let reserved = size(oom.totals.reserved_bytes);
    let active = size(oom.totals.active_bytes);
    let unused = size(oom.unused_bytes());
    let free = oom.device_free_bytes.map_or_else(String::new, size);
    match oom.cause {
        Cause::Limit => format!(
            "{asked} was asked for with {reserved} reserved, and a limit on this process, of less than {}, refused it: \
             the device still had {free} free (`set_per_process_memory_fraction`, or `per_process_memory_fraction` in \
             the settings)",
            size(oom.totals.reserved_bytes.saturating_add(oom.segment_bytes))
        ),
        Cause::NeverFits => format!(
            "{asked} was asked for, more than this process could ever have had: {reserved} reserved and {free} free on the \
             device come to {}",
            size(oom.available_bytes().unwrap_or(0))
        ),
        Cause::Fragmentation => format!(
            "{asked} was asked for; {free} was free on the device, and {unused} of the {reserved} reserved was not in use, \
             but in no piece that could be handed out"
        ),
        Cause::Full if oom.unused_bytes() == 0 => {
            format!("{asked} was asked for with all of the {reserved} reserved in use, and {free} free on the device")
        }
        Cause::Full => format!(
            "{asked} was asked for with {active} in use; {free} was free on the device, and {unused} of the {reserved} \
             reserved was not in use"
        ),
        Cause::Unknown => format!("{asked} was asked for with {active} in use and {reserved} reserved"),
    }
}

/// One finding for all growing sites.
fn growing(analysis: &Analysis<'_>, device: &DeviceAnalysis<'_>) -> Option<Finding> {
    let first = device.growth.first()?;
    let sum = device.growth.iter().map(Growth::bytes_per_iteration).fold(0, u64::saturating_add);
    let places: Vec<_> = device
        .growth
        .iter()
        .take(3)
        .map(|growth| {
            format!(
                "{} an iteration in {} at {}",
                size(growth.bytes_per_iteration()),
                counted(growth.count_per_iteration(), "allocation", "allocations"),
                place(analysis, growth.site)
            )
        })
        .collect();
    let rest = device.growth.len().saturating_sub(3);
    let more = if rest == 0 { String::new() } else { format!("; and {}", counted(rest, "more place", "more places")) };
    Some(Finding {
        id: "growth",
        severity: Severity::Warning,
        title: format!("memory grows by {} an iteration", size(sum)),
        detail: format!(
            "left behind in {} of {} iterations: {}{more}",
            first.iterations,
            first.counted,
            places.join("; ")
        ),
        saving_bytes: Some(device.growth.iter().map(|growth| growth.bytes).fold(0, u64::saturating_add)),
        change: Some(
            "let go of what these lines keep: a list of losses needs `loss.item()`, a cache a bound".to_owned(),
        ),
    })
}

/// `train.py:12 step`, the last part of the file's path.
pub fn place(analysis: &Analysis<'_>, site: Site) -> String {
    let Site::Frame(id) = site else { return site.label().unwrap_or_default().to_owned() };
    let frame = analysis.snapshot.frames.get(id);
    let path = analysis.snapshot.text(frame.filename);
    let file = path.rsplit(['/', '\\']).next().unwrap_or(path);
    format!("{file}:{} {}", frame.line, analysis.snapshot.text(frame.name))
}

/// Reserved at the peak and not asked for.
fn idle_cache(device: &DeviceAnalysis<'_>) -> Option<Finding> {
    const WORTH_A_WORD: u64 = 1 << 30;
    let reserved = device.timeline.reserved_peak().bytes;
    let requested = device.timeline.requested_peak().bytes;
    let unused = reserved.saturating_sub(requested);
    // What was not recorded may have requested more.
    if !device.recorded.is_whole() || unused < WORTH_A_WORD || unused / 5 < requested / 20 {
        return None;
    }
    #[expect(clippy::cast_precision_loss, reason = "a ratio for showing")]
    let share = unused as f64 / reserved as f64;
    Some(Finding {
        id: "reserved-unused",
        severity: Severity::Warning,
        title: format!("{} more was reserved than was ever requested at once", size(unused)),
        detail: format!(
            "the reserved peak is {}, the requested peak {}; the difference, {} of what was reserved, went to rounding and \
             free blocks",
            size(reserved),
            size(requested),
            percent(share)
        ),
        saving_bytes: None,
        change: None,
    })
}

/// Free memory at the dump that only a CUDA graph or a `MemPool` can use.
fn private_pools(device: &DeviceAnalysis<'_>) -> Option<Finding> {
    const WORTH_A_WORD: u64 = 64 << 20;
    let held = device.fragmentation.private_pool_free_bytes;
    if held < WORTH_A_WORD || held < device.end.reserved_bytes / 20 {
        return None;
    }
    Some(Finding {
        id: "private-pools",
        severity: Severity::Warning,
        title: format!("{} is free, but in private pools", size(held)),
        detail: format!(
            "of {} reserved at the dump; memory of a CUDA graph or a `MemPool` serves requests of that pool only",
            size(device.end.reserved_bytes)
        ),
        saving_bytes: None,
        change: Some(
            "let graphs share a pool (`torch.cuda.graph(…, pool=…)`), and drop the pools and graphs that are done"
                .to_owned(),
        ),
    })
}

/// Freed memory that other streams hold back at the dump.
fn awaiting_free(snapshot: &Snapshot, device: &DeviceAnalysis<'_>) -> Option<Finding> {
    const WORTH_A_WORD: u64 = 16 << 20;
    let waiting = device.end.active_bytes.saturating_sub(device.end.allocated_bytes);
    if waiting < WORTH_A_WORD {
        return None;
    }
    let blocks = snapshot
        .device_blocks(device.device)
        .filter(|(_, block)| block.state == highwater_snapshot::BlockState::ActiveAwaitingFree)
        .count();
    Some(Finding {
        id: "awaiting-free",
        severity: Severity::Warning,
        title: format!("{} is freed but not yet usable", size(waiting)),
        detail: format!(
            "{} at the dump wait until another stream is done with them (`record_stream`)",
            counted(blocks, "block", "blocks")
        ),
        saving_bytes: None,
        change: None,
    })
}

fn unseen(device: &DeviceAnalysis<'_>) -> Option<Finding> {
    let recorded = &device.recorded;
    let title = recorded.unseen()?;
    let change = if recorded.is_cut {
        "copy the file again, or dump it again"
    } else {
        "call `torch.cuda.memory._record_memory_history(max_entries=…)` before the first allocation, with room for every \
         entry"
    };
    Some(Finding {
        id: if recorded.truncated { "truncated" } else { "late-recording" },
        severity: Severity::Info,
        title: if device.has_history() { title } else { "peaks are not known" }.to_owned(),
        detail: recorded.reason.clone().unwrap_or_default(),
        saving_bytes: None,
        change: Some(change.to_owned()),
    })
}

fn without_stacks(device: &DeviceAnalysis<'_>) -> Option<Finding> {
    let entries = device.entries;
    if !device.has_history() || entries.stacks().iter().any(|stack| stack.is_recorded()) {
        return None;
    }
    Some(Finding {
        id: "no-stacks",
        severity: Severity::Info,
        title: "no stacks were recorded: allocations cannot be traced to code".to_owned(),
        detail: format!("none of {} has `frames`", counted(entries.len(), "entry", "entries")),
        saving_bytes: None,
        change: Some("record with `context=\"all\"`, the default".to_owned()),
    })
}
