//! A report over time: peaks, the envelope, iterations, growth.

use highwater_analysis::Analysis;
use highwater_analysis::device::DeviceAnalysis;
use highwater_analysis::growth::Growth;
use highwater_analysis::iteration::Iteration;
use highwater_analysis::timeline::{Peak, Timeline};
use highwater_snapshot::{EntryId, Snapshot};

use super::CategoriesView;
#[cfg(doc)]
use super::{AtPeakView, BlockSizesView};
use crate::{FrameView, PlaceView, frames_from_site};

/// The highest totals in equal parts of the trace, in order: a small picture that keeps every peak.
#[derive(Clone, Debug, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EnvelopeView {
    /// The total named by `at_peak.by`.
    pub bytes: Vec<u64>,
    /// Reserved bytes.
    pub reserved_bytes: Vec<u64>,
}

impl EnvelopeView {
    pub(super) fn new(device: &DeviceAnalysis<'_>, columns: usize) -> Self {
        let (bytes, reserved_bytes) = device
            .timeline
            .envelope(columns)
            .iter()
            .map(|totals| (device.by.of(totals), totals.reserved_bytes))
            .unzip();
        Self { bytes, reserved_bytes }
    }
}

/// The default number of parts of the envelope, which fit into a line of text.
pub(super) const ENVELOPE_COLUMNS: usize = 86;

/// The maximum of each total over the recording, and the entry after which it is first reached (null: before the
/// first).
#[derive(Clone, Copy, Debug, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PeakView {
    /// Requested.
    pub requested_bytes: u64,
    /// In blocks that tensors own; the lower bound if [`BlockSizesView::known`] is `bounds`.
    pub allocated_bytes: u64,
    /// Allocated bytes and bytes that wait for their free; the lower bound, likewise.
    pub active_bytes: u64,
    /// Held from the driver.
    pub reserved_bytes: u64,
    /// The upper bound of the allocated bytes, if it is higher.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocated_bytes_at_most: Option<u64>,
    /// The upper bound of the active bytes, if it is higher.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub active_bytes_at_most: Option<u64>,
    /// Where the requested bytes are highest.
    pub requested_entry: Option<u32>,
    /// Where the allocated bytes are highest.
    pub allocated_entry: Option<u32>,
    /// Where the active bytes are highest.
    pub active_entry: Option<u32>,
    /// Where the reserved bytes are highest.
    pub reserved_entry: Option<u32>,
}

impl PeakView {
    pub(super) fn new(timeline: &Timeline<'_>) -> Self {
        let [requested, allocated, active, reserved] =
            [timeline.requested_peak(), timeline.allocated_peak(), timeline.active_peak(), timeline.reserved_peak()];
        let entry = |peak: Peak| peak.entry.map(EntryId::get);
        Self {
            requested_bytes: requested.bytes,
            allocated_bytes: allocated.bytes,
            active_bytes: active.bytes,
            reserved_bytes: reserved.bytes,
            allocated_bytes_at_most: more(allocated.bytes, allocated.at_most_bytes),
            active_bytes_at_most: more(active.bytes, active.at_most_bytes),
            requested_entry: entry(requested),
            allocated_entry: entry(allocated),
            active_entry: entry(active),
            reserved_entry: entry(reserved),
        }
    }
}

/// The upper bound of a number, where it is another one.
fn more(least: u64, most: u64) -> Option<u64> {
    (most != least).then_some(most)
}

/// One iteration.
#[derive(Clone, Debug, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct IterationView {
    /// First entry.
    pub start_entry: usize,
    /// Last entry.
    pub end_entry: usize,
    /// Whether it was recorded from beginning to end.
    pub complete: bool,
    /// The highest requested bytes.
    pub peak_requested_bytes: u64,
    /// The entry of the highest bytes of the total named by [`AtPeakView::by`].
    pub peak_entry: Option<u32>,
    /// The highest allocated bytes.
    pub peak_allocated_bytes: u64,
    /// The upper bound, if it is higher.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peak_allocated_bytes_at_most: Option<u64>,
    /// Requested bytes at its end.
    pub end_requested_bytes: u64,
    /// Allocated bytes at its end.
    pub end_allocated_bytes: u64,
    /// The upper bound, if it is higher.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end_allocated_bytes_at_most: Option<u64>,
    /// The highest reserved bytes.
    pub peak_reserved_bytes: u64,
    /// Bytes by category after `peak_entry`, of the total named by [`AtPeakView::by`]; absent where there is no such
    /// entry.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peak_categories: Option<CategoriesView>,
    /// Its phases, in order.
    pub phases: Vec<PhaseView>,
}

#[cfg(test)]
impl IterationView {
    /// An iteration of which nothing else is known.
    pub(crate) fn spanning(start_entry: usize, end_entry: usize) -> Self {
        Self {
            start_entry,
            end_entry,
            complete: true,
            peak_requested_bytes: 0,
            peak_entry: None,
            peak_allocated_bytes: 0,
            peak_allocated_bytes_at_most: None,
            end_requested_bytes: 0,
            end_allocated_bytes: 0,
            end_allocated_bytes_at_most: None,
            peak_reserved_bytes: 0,
            peak_categories: None,
            phases: Vec::new(),
        }
    }
}

/// A run of one phase.
#[derive(Clone, Debug, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PhaseView {
    /// `forward`, `backward` or `optimizer`.
    pub name: &'static str,
    /// First entry.
    pub start_entry: usize,
    /// Last entry.
    pub end_entry: usize,
    /// The highest requested bytes.
    pub peak_requested_bytes: u64,
    /// The highest allocated bytes.
    pub peak_allocated_bytes: u64,
}

/// Memory that iterations leave behind at one call site.
#[derive(Clone, Debug, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GrowthView<'a> {
    /// Mean bytes left behind per iteration.
    pub bytes_per_iteration: u64,
    /// Bytes left behind, of all counted iterations.
    pub bytes: u64,
    /// Allocations left behind.
    pub count: u64,
    /// Iterations that left something.
    pub iterations: usize,
    /// Iterations that were counted.
    pub counted: usize,
    /// The words for the site where there is no frame.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<&'a str>,
    /// The site in words, and whose it is.
    #[serde(flatten)]
    pub at: PlaceView<'a>,
    /// The line, then its callers.
    pub frames: Vec<FrameView<'a>>,
}

pub(super) fn iteration_views(device: &DeviceAnalysis<'_>, snapshot: &Snapshot) -> Vec<IterationView> {
    let rows = &device.iterations.rows;
    let peaks: Vec<EntryId> = rows.iter().filter_map(|iteration| iteration.peak_entry).collect();
    let mut categories = device.counted_by_category_at(&peaks, snapshot).into_iter();
    let view = |iteration: &Iteration| {
        let categories = iteration.peak_entry.and_then(|_| categories.next()).map(CategoriesView::new);
        iteration_view(device, iteration, categories)
    };
    rows.iter().map(view).collect()
}

fn iteration_view(
    device: &DeviceAnalysis<'_>,
    iteration: &Iteration,
    peak_categories: Option<CategoriesView>,
) -> IterationView {
    IterationView {
        start_entry: iteration.entries.start,
        end_entry: iteration.entries.end.saturating_sub(1),
        complete: iteration.is_complete,
        peak_requested_bytes: iteration.peak.requested_bytes,
        peak_entry: iteration.peak_entry.map(EntryId::get),
        peak_allocated_bytes: iteration.peak.allocated_bytes,
        peak_allocated_bytes_at_most: more(iteration.peak.allocated_bytes, iteration.peak.allocated_at_most_bytes()),
        end_requested_bytes: iteration.end.requested_bytes,
        end_allocated_bytes: iteration.end.allocated_bytes,
        end_allocated_bytes_at_most: more(iteration.end.allocated_bytes, iteration.end.allocated_at_most_bytes()),
        peak_reserved_bytes: iteration.peak.reserved_bytes,
        peak_categories,
        phases: iteration
            .phases
            .iter()
            .map(|run| {
                let (peak, _) = device.timeline.peak_in(run.entries.clone(), device.by);
                PhaseView {
                    name: run.phase.name(),
                    start_entry: run.entries.start,
                    end_entry: run.entries.end.saturating_sub(1),
                    peak_requested_bytes: peak.requested_bytes,
                    peak_allocated_bytes: peak.allocated_bytes,
                }
            })
            .collect(),
    }
}

pub(super) fn growth_view<'a>(analysis: &Analysis<'a>, growth: &Growth) -> GrowthView<'a> {
    GrowthView {
        bytes_per_iteration: growth.bytes_per_iteration(),
        bytes: growth.bytes,
        count: growth.count,
        iterations: growth.iterations,
        counted: growth.counted,
        label: growth.site.label(analysis.snapshot),
        at: PlaceView::new(analysis, growth.site, growth.stack),
        frames: frames_from_site(analysis, growth.site, growth.stack),
    }
}
