//! The manifest: everything to draw that is not a column.

use crate::{Document, Format, Version};
use std::collections::BTreeMap;

use highwater_analysis::Analysis;
use highwater_analysis::device::DeviceAnalysis;
use highwater_analysis::timeline::{Peak, Total};
use highwater_findings::verdict::headline;
use highwater_snapshot::{Action, EntryId, PoolId, Snapshot, StreamId};
use highwater_units::size;
use highwater_whatif::verdict::capacity_at_failure;

use super::lifetimes::measure;
use super::outside::OutsideView;
use super::section::SectionInfo;
use crate::{CeilingView, RecordedView, TorchView, WarningView};

/// Sections by their names.
pub type Sections = BTreeMap<String, SectionInfo>;

/// `highwater-view`.
#[derive(Clone, Debug, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Manifest {
    pub(crate) format: Format<Self>,
    pub(crate) version: Version<Self>,
    /// The file's name, without its directory.
    pub name: String,
    /// The version of PyTorch that wrote it, as far as the file shows.
    pub torch: TorchView,
    /// Warnings.
    pub warnings: Vec<WarningView>,
    /// The entries that are not shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left_out: Option<LeftOutView>,
    /// Whether the page can simulate.
    pub what_if: WhatIf,
    /// Why it cannot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub what_if_reason: Option<String>,
    /// Number of distinct frames.
    pub frames: usize,
    /// Number of distinct stacks, including the two placeholders for a missing stack.
    pub stacks: usize,
    /// The names of other actions than PyTorch's own, which have the codes after those.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub other_actions: Vec<String>,
    /// The sections of the whole file.
    pub sections: Sections,
    /// The device that the page opens on: the one that the report leads with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub opens_on: Option<u32>,
    /// One for each device; they are never summed.
    pub devices: Vec<DeviceManifest>,
}

impl Document for Manifest {
    const FORMAT: &'static str = "highwater-view";
    const VERSION: u32 = 1;
}

impl Manifest {
    /// The description of a section: of the file, or of a device, with its number and a slash before the name.
    pub fn info_mut(&mut self, name: &str) -> Option<&mut SectionInfo> {
        let Some((device, name)) = name.split_once('/') else { return self.sections.get_mut(name) };
        let device: u32 = device.parse().ok()?;
        self.devices.iter_mut().find(|of| of.device == device)?.sections.get_mut(name)
    }
}

/// The source of the answers to "what if".
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum WhatIf {
    /// The server computes them.
    #[serde(rename = "live")]
    Live,
    /// The page contains those to the usual questions.
    #[serde(rename = "precomputed")]
    Precomputed,
    /// There are none.
    #[serde(rename = "left out")]
    LeftOut,
}

/// Lifetimes that are not shown.
#[derive(Clone, Copy, Debug, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LeftOutView {
    /// All of them are smaller than this.
    pub below_bytes: u64,
    /// Their number.
    pub allocations: usize,
    /// The most bytes of them that were live at once on a device: the drawn area is nowhere too low by more.
    pub bytes: u64,
}

/// One device.
#[derive(Clone, Debug, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DeviceManifest {
    /// CUDA ordinal.
    pub device: u32,
    /// Number of trace entries: the x axis is 0 to this.
    pub entries: usize,
    /// Number of lifetimes.
    pub rows: usize,
    /// The number of lifetimes that began before the first entry; they are the first rows.
    pub before: usize,
    /// The unit of sizes and offsets: a power of two, 512 if all sizes allow it.
    pub unit_bytes: u64,
    /// The meaning of `size`: `active_bytes`, or `requested_bytes` where the sizes of blocks are estimates.
    pub measure: &'static str,
    /// How exactly the sizes of blocks are known: `exact`, `bounds` or `estimate`.
    pub knowledge: &'static str,
    /// Why not exactly.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The answer in one line: the failure and its cause, or the peak.
    pub headline: String,
    /// The part of the run that the trace holds.
    pub recorded: RecordedView,
    /// The largest total of `measure` after an entry.
    pub peak: PeakAt,
    /// The total of `measure` after the last entry.
    pub end_bytes: u64,
    /// The largest reserved total after an entry.
    pub reserved_peak: PeakAt,
    /// The memory available to the process when a request failed: a certain lower bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity_bytes: Option<u64>,
    /// The level that reserved memory could not pass, where a request failed: the line that the page draws.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ceiling: Option<CeilingView>,
    /// The process's memory on the GPU outside PyTorch, where the driver was recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outside: Option<OutsideView>,
    /// The first and the last time, in microseconds since the Unix epoch; absent if the entries have no times.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_us: Option<[i64; 2]>,
    /// The handles, as text.
    pub streams: Vec<String>,
    /// Pools.
    pub pools: Vec<PoolView>,
    /// The names of the categories; absent if no allocation has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub categories: Option<Vec<String>>,
    /// Notable moments: at most 10,000, errors first.
    pub marks: Vec<Mark>,
    /// The number of further moments, which are left out.
    #[serde(skip_serializing_if = "is_zero")]
    pub marks_left_out: usize,
    /// Annotated scopes: at most 100,000, the outermost.
    pub scopes: Vec<ScopeView>,
    /// The number of further scopes, which are left out.
    #[serde(skip_serializing_if = "is_zero")]
    pub scopes_left_out: usize,
    /// The iterations.
    pub iterations: Vec<IterationSpan>,
    /// The device's own sections, without its name before theirs.
    pub sections: Sections,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
pub(super) fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// A total and its entry.
#[derive(Clone, Copy, Debug, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PeakAt {
    /// The total.
    pub bytes: u64,
    /// After which entry.
    pub entry: u32,
}

/// A memory pool.
#[derive(Clone, Debug, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PoolView {
    /// The id of a private pool; null for the default pool, and where the file names none.
    pub id: Option<(u64, u64)>,
    /// Its name.
    pub label: String,
}

/// A notable moment.
#[derive(Clone, Debug, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Mark {
    /// The entry.
    pub entry: u32,
    /// `oom`, `snapshot` or `annotate`.
    #[cfg_attr(feature = "schema", schemars(extend("enum" = ["oom", "snapshot", "annotate"])))]
    pub kind: &'static str,
    /// Its name.
    pub label: String,
    /// The request, or the allocation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
}

/// An annotation, in entries.
#[derive(Clone, Debug, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ScopeView {
    /// First entry inside.
    pub start: usize,
    /// One past the last.
    pub end: usize,
    /// The number of scopes around it.
    pub depth: usize,
    /// Its name.
    pub name: String,
}

/// An iteration, in entries.
#[derive(Clone, Debug, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct IterationSpan {
    /// First entry.
    pub start: usize,
    /// One past the last.
    pub end: usize,
    /// Its phases.
    pub phases: Vec<PhaseSpan>,
}

/// A phase, in entries.
#[derive(Clone, Copy, Debug, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PhaseSpan {
    /// `forward`, `backward` or `optimizer`.
    pub name: &'static str,
    /// First entry.
    pub start: usize,
    /// One past the last.
    pub end: usize,
}

/// More marks than a chart can show, or a page should hold: the first ones are kept, errors before all others.
const MAX_MARKS: usize = 10_000;

/// More scopes than that: the outermost are kept.
const MAX_SCOPES: usize = 100_000;

/// The facts of a device without its columns.
pub(super) fn device(analysis: &Analysis<'_>, device: &DeviceAnalysis<'_>) -> DeviceManifest {
    let snapshot = analysis.snapshot;
    let measure = measure(device);
    let blocks = device.blocks();
    let recorded = &device.recorded;
    let (marks, marks_left_out) = marks(snapshot, device);
    let (scopes, scopes_left_out) = scopes(snapshot, device);
    DeviceManifest {
        device: device.device,
        entries: device.entries.len(),
        rows: 0,
        before: 0,
        unit_bytes: 1,
        measure: measure.key(),
        knowledge: blocks.knowledge().name(),
        reason: blocks.reason(),
        headline: headline(analysis, device),
        recorded: RecordedView::new(recorded),
        peak: peak(device, measure),
        end_bytes: measure.of(&device.timeline.end()),
        reserved_peak: peak(device, Total::Reserved),
        capacity_bytes: capacity_at_failure(device),
        ceiling: CeilingView::of(device),
        outside: None,
        time_us: None,
        streams: Vec::new(),
        pools: Vec::new(),
        categories: None,
        marks,
        marks_left_out,
        scopes,
        scopes_left_out,
        iterations: iterations(device),
        sections: Sections::new(),
    }
}

/// The largest total after an entry: that before the first one does not count, for the page does not show it.
pub(super) fn peak(device: &DeviceAnalysis<'_>, total: Total) -> PeakAt {
    let timeline = &device.timeline;
    let known = match total {
        Total::Requested => timeline.requested_peak(),
        Total::Reserved => timeline.reserved_peak(),
        _ => timeline.active_peak(),
    };
    if let Peak { bytes, entry: Some(entry), .. } = known {
        return PeakAt { bytes, entry: entry.get() };
    }
    let (highest, entry) = timeline.peak_in(0..device.entries.len(), total);
    match entry {
        Some(entry) => PeakAt { bytes: total.of(&highest), entry: entry.get() },
        None => PeakAt { bytes: total.of(&timeline.start()), entry: 0 },
    }
}

fn marks(snapshot: &Snapshot, device: &DeviceAnalysis<'_>) -> (Vec<Mark>, usize) {
    let entries = device.entries;
    let errors = device.oom.iter().map(|event| Mark {
        entry: event.entry.get(),
        kind: "oom",
        // The number of PyTorch's own message.
        label: format!("out of memory: {} requested", size(event.segment_bytes)),
        bytes: Some(event.requested_bytes),
    });
    let mut marks: Vec<Mark> = errors.take(MAX_MARKS).collect();
    let mut all = device.oom.len();
    for (row, &action) in entries.actions().iter().enumerate() {
        let (kind, label) = match action {
            Action::SNAPSHOT => ("snapshot", "snapshot".to_owned()),
            Action::ANNOTATE => ("annotate", snapshot.text(entries.user_metadata().get(row)).to_owned()),
            _ => continue,
        };
        all += 1;
        if marks.len() < MAX_MARKS {
            let bytes = (action == Action::ANNOTATE).then(|| entries.sizes_bytes()[row]);
            marks.push(Mark { entry: EntryId::from_index(row).get(), kind, label, bytes });
        }
    }
    marks.sort_by_key(|mark| mark.entry);
    let left_out = all - marks.len();
    (marks, left_out)
}

fn scopes(snapshot: &Snapshot, device: &DeviceAnalysis<'_>) -> (Vec<ScopeView>, usize) {
    let all = &device.scopes;
    let mut deepest = usize::MAX;
    if all.len() > MAX_SCOPES {
        let mut depths: Vec<usize> = all.iter().map(|scope| scope.depth).collect();
        depths.sort_unstable();
        deepest = depths[MAX_SCOPES];
    }
    let shown = all.iter().filter(|scope| all.len() <= MAX_SCOPES || scope.depth < deepest.max(1)).take(MAX_SCOPES);
    let shown: Vec<ScopeView> = shown
        .map(|scope| ScopeView {
            start: scope.start,
            end: scope.end,
            depth: scope.depth,
            name: snapshot.text(scope.name).to_owned(),
        })
        .collect();
    let left_out = all.len() - shown.len();
    (shown, left_out)
}

fn iterations(device: &DeviceAnalysis<'_>) -> Vec<IterationSpan> {
    let rows = device.iterations.rows.iter().map(|iteration| IterationSpan {
        start: iteration.entries.start,
        end: iteration.entries.end,
        phases: iteration
            .phases
            .iter()
            .map(|run| PhaseSpan { name: run.phase.name(), start: run.entries.start, end: run.entries.end })
            .collect(),
    });
    rows.collect()
}

/// The handles of some streams.
pub(super) fn streams(snapshot: &Snapshot, ids: &[u32]) -> Vec<String> {
    ids.iter().map(|&id| snapshot.stream_handle(StreamId::new(id)).to_string()).collect()
}

/// Some pools.
pub(super) fn pools(snapshot: &Snapshot, ids: &[u32]) -> Vec<PoolView> {
    let view = |&id: &u32| match PoolId::new(id) {
        PoolId::MISSING => PoolView { id: None, label: "pool not recorded".to_owned() },
        PoolId::DEFAULT => PoolView { id: None, label: "default pool".to_owned() },
        pool => {
            let id = snapshot.pool_id(pool);
            PoolView { id: Some(id), label: format!("private pool {}:{}", id.0, id.1) }
        }
    };
    ids.iter().map(view).collect()
}
