//! `highwater-diff`: the changes from one recording to another.

mod batch;
mod stacks;

use crate::{FrameView, PlaceView, SettingView, frames_from_site};
use highwater_analysis::Analysis;
use highwater_findings::batch::{BatchFit, NoFit};
use highwater_findings::diff::{DeviceDiff, Moment, SettingDiff, Side, SiteDiff};
use highwater_snapshot::EntryId;
use serde::Serialize;

pub use batch::{BatchPeakView, BatchView, CapacityView, ContradictionView, PointView};
pub use stacks::{StackNodeView, StackTreeView};

use crate::{Document, Format, Version};

/// Recordings, side by side.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DiffView<'a> {
    format: Format<Self>,
    version: Version<Self>,
    /// The names of the recordings; every list with one element per file is in this order.
    pub files: Vec<String>,
    /// Whether any of them is a profiler's, which has one total and no dump. Absent where none is.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_profile: bool,
    /// The devices that were compared.
    pub devices: Vec<DeviceDiffView<'a>>,
    /// Settings that are not the same in all.
    pub settings: Vec<SettingDiffView<'a>>,
}

impl Document for DiffView<'_> {
    const FORMAT: &'static str = "highwater-diff";
    const VERSION: u32 = 1;
}

/// A device of each file.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DeviceDiffView<'a> {
    /// That of the first file.
    pub device: u32,
    /// One for each file.
    pub devices: Vec<u32>,
    /// When they are compared: `peak`, `end` or `iteration`.
    pub at: &'static str,
    /// Which iteration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub iteration: Option<usize>,
    /// The files are two dumps of one process, and the last goes on for this many entries.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub later_by_entries: Option<usize>,
    /// One for each file.
    pub sides: Vec<SideView>,
    /// The categories that any file has.
    pub categories: Vec<CategoryDiffView>,
    /// The peak by the batch; null if it is unknown.
    pub batch: Option<BatchView>,
    /// Why it is null.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch_unclear: Option<&'static str>,
    /// The call sites, largest change first.
    pub call_sites: Vec<SiteDiffView<'a>>,
}

/// A device of one file.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SideView {
    /// The entry after which it is compared; null before the first.
    pub entry: Option<u32>,
    /// Requested bytes at that moment.
    pub requested_bytes: u64,
    /// Bytes in blocks that tensors own, at that moment.
    pub allocated_bytes: u64,
    /// Reserved bytes at that moment.
    pub reserved_bytes: u64,
    /// The highest requested bytes of the recording.
    pub peak_requested_bytes: u64,
    /// The highest allocated bytes of the recording.
    pub peak_allocated_bytes: u64,
    /// The highest reserved bytes of the recording.
    pub peak_reserved_bytes: u64,
    /// Whether the reserved bytes are unknown, as in a profiler's file. Absent where they are known.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub reserved_is_unknown: bool,
    /// Allocated bytes at the last entry.
    pub end_allocated_bytes: u64,
    /// Complete iterations.
    pub iterations: usize,
}

/// A category of all files.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CategoryDiffView {
    /// Its name, such as `optimizer_state`.
    pub name: &'static str,
    /// From the first file to the last.
    pub change_bytes: i128,
    /// One for each file.
    pub bytes: Vec<u64>,
}

/// A call site of all files.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SiteDiffView<'a> {
    /// From the first file to the last.
    pub change_bytes: i128,
    /// One for each file.
    pub bytes: Vec<u64>,
    /// Allocations, one for each file.
    pub count: Vec<u64>,
    /// The words for the call site if there is no frame.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<&'a str>,
    /// The site in words, and whose it is.
    #[serde(flatten)]
    pub at: PlaceView<'a>,
    /// The line that stands for it, then its callers, of the last file that has it.
    pub frames: Vec<FrameView<'a>>,
}

/// A setting that is not the same in all files.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SettingDiffView<'a> {
    /// Its key; those of tables have dots.
    pub key: &'a str,
    /// One for each file; null where it is not recorded.
    pub values: Vec<Option<SettingView<'a>>>,
}

/// A device of all files, compared.
#[derive(Debug)]
pub struct Compared<'a> {
    /// The time.
    pub at: Moment,
    /// The result.
    pub diff: DeviceDiff<'a>,
    /// The peak by the batch, or why there is no line.
    pub batch: Result<BatchFit, NoFit>,
}

impl<'a> DiffView<'a> {
    /// The document of recordings with the names `files`; the largest batch must fit `capacity_bytes`.
    pub fn new(
        files: Vec<String>,
        analyses: &'a [&'a Analysis<'a>],
        devices: &'a [Compared<'a>],
        settings: &'a [SettingDiff<'a>],
        capacity_bytes: Option<u64>,
    ) -> Self {
        Self {
            format: Format::default(),
            version: Version::default(),
            files,
            is_profile: analyses.iter().any(|analysis| analysis.snapshot.profile.is_some()),
            devices: devices.iter().map(|compared| device(analyses, compared, capacity_bytes)).collect(),
            settings: settings
                .iter()
                .map(|setting| SettingDiffView {
                    key: &setting.key,
                    values: setting.values.iter().map(|value| value.map(SettingView)).collect(),
                })
                .collect(),
        }
    }
}

fn device<'a>(
    analyses: &'a [&'a Analysis<'a>],
    Compared { at, diff, batch }: &'a Compared<'a>,
    capacity_bytes: Option<u64>,
) -> DeviceDiffView<'a> {
    DeviceDiffView {
        device: diff.devices.first().copied().unwrap_or_default(),
        devices: diff.devices.clone(),
        at: match at {
            Moment::Peak => "peak",
            Moment::End => "end",
            Moment::Iteration(_) => "iteration",
        },
        iteration: if let Moment::Iteration(number) = at { Some(*number) } else { None },
        later_by_entries: diff.later_by,
        sides: diff.sides.iter().map(side).collect(),
        categories: diff
            .categories
            .iter()
            .map(|category| CategoryDiffView {
                name: category.category.name(),
                change_bytes: category.change_bytes(),
                bytes: category.bytes.clone(),
            })
            .collect(),
        batch: batch.as_ref().ok().map(|fit| BatchView::new(fit, capacity_bytes)),
        batch_unclear: batch.as_ref().err().map(|reason| reason.text()),
        call_sites: diff.sites.iter().map(|site| call_site(analyses, site)).collect(),
    }
}

fn call_site<'a>(analyses: &'a [&'a Analysis<'a>], site: &SiteDiff<'a>) -> SiteDiffView<'a> {
    let (file, stack) = site.stack;
    SiteDiffView {
        change_bytes: site.change_bytes(),
        bytes: site.bytes.clone(),
        count: site.count.clone(),
        label: site.site.label,
        at: PlaceView::new(analyses[file], site.there, stack),
        frames: frames_from_site(analyses[file], site.there, stack),
    }
}

fn side(side: &Side) -> SideView {
    SideView {
        entry: side.entry.map(EntryId::get),
        requested_bytes: side.totals.requested_bytes,
        allocated_bytes: side.totals.allocated_bytes,
        reserved_bytes: side.totals.reserved_bytes,
        peak_requested_bytes: side.peak.requested_bytes,
        peak_allocated_bytes: side.peak.allocated_bytes,
        peak_reserved_bytes: side.peak.reserved_bytes,
        reserved_is_unknown: !side.knows_reserved,
        end_allocated_bytes: side.end.allocated_bytes,
        iterations: side.iterations,
    }
}
