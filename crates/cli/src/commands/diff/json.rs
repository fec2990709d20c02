//! What `highwater diff` says, for a program.

use highwater_findings::batch::{BatchFit, Covers};
use highwater_findings::diff::{Moment, Side};
use highwater_findings::view::{FrameView, PlaceView, SettingView};
use highwater_snapshot::EntryId;

use super::{Compared, Comparison, shown_frames};

/// `highwater-diff`.
#[derive(serde::Serialize)]
pub(super) struct DiffView<'a> {
    format: &'static str,
    version: u32,
    files: Vec<String>,
    devices: Vec<DeviceDiffView<'a>>,
    settings: Vec<SettingDiffView<'a>>,
}

#[derive(serde::Serialize)]
struct DeviceDiffView<'a> {
    /// Of the first file.
    device: u32,
    /// One for each file.
    devices: &'a [u32],
    /// `peak`, `end` or `iteration`.
    at: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    iteration: Option<usize>,
    /// Two dumps of one process: the last goes on for so many entries.
    #[serde(skip_serializing_if = "Option::is_none")]
    later_by_entries: Option<usize>,
    /// One for each file.
    sides: Vec<SideView>,
    /// Those that any file has.
    categories: Vec<CategoryDiffView<'a>>,
    /// The peak by the batch; null where nothing tells it.
    batch: Option<BatchView>,
    /// Why it is null.
    #[serde(skip_serializing_if = "Option::is_none")]
    batch_unclear: Option<&'static str>,
    call_sites: Vec<SiteDiffView<'a>>,
}

#[derive(serde::Serialize)]
struct SideView {
    entry: Option<u32>,
    requested_bytes: u64,
    allocated_bytes: u64,
    reserved_bytes: u64,
    peak_requested_bytes: u64,
    peak_allocated_bytes: u64,
    peak_reserved_bytes: u64,
    end_allocated_bytes: u64,
    iterations: usize,
}

#[derive(serde::Serialize)]
struct CategoryDiffView<'a> {
    name: &'static str,
    /// From the first file to the last.
    change_bytes: i128,
    /// One for each file.
    bytes: &'a [u64],
}

/// The larger of `floor_bytes` and `fixed_bytes + bytes_per_unit * batch + bytes_per_unit_squared * batch²`.
#[derive(serde::Serialize)]
struct BatchView {
    /// `row`, or `first-batch`: the first file's batch is 1.
    unit: &'static str,
    /// The iteration that it was fitted to; absent if all of the recordings were.
    #[serde(skip_serializing_if = "Option::is_none")]
    iteration: Option<usize>,
    fixed_bytes: u64,
    bytes_per_unit: f64,
    /// 0 where the points lie on a line.
    bytes_per_unit_squared: f64,
    floor_bytes: u64,
    largest_residual_bytes: u64,
    /// One for each file.
    points: Vec<PointView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    capacity: Option<CapacityView>,
}

#[derive(serde::Serialize)]
struct CapacityView {
    bytes: u64,
    /// Null if none is within it.
    largest_batch: Option<f64>,
}

#[derive(serde::Serialize)]
struct PointView {
    batch: f64,
    peak_bytes: u64,
    fitted_bytes: u64,
}

#[derive(serde::Serialize)]
struct SiteDiffView<'a> {
    /// From the first file to the last.
    change_bytes: i128,
    /// One for each file, as are the counts.
    bytes: Vec<u64>,
    count: Vec<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    label: Option<&'a str>,
    /// The site in words, and whose it is.
    #[serde(flatten)]
    at: PlaceView<'a>,
    frames: Vec<FrameView<'a>>,
}

#[derive(serde::Serialize)]
struct SettingDiffView<'a> {
    key: &'a str,
    values: Vec<Option<SettingView<'a>>>,
}

/// The document.
pub(super) fn view<'a>(comparison: &'a Comparison<'_>) -> DiffView<'a> {
    DiffView {
        format: "highwater-diff",
        version: 1,
        files: comparison.files.clone(),
        devices: comparison.devices.iter().map(|compared| device(comparison, compared)).collect(),
        settings: comparison
            .settings
            .iter()
            .map(|setting| SettingDiffView {
                key: &setting.key,
                values: setting.values.iter().map(|value| value.map(SettingView)).collect(),
            })
            .collect(),
    }
}

fn device<'a>(comparison: &'a Comparison<'_>, Compared { at, diff, batch }: &'a Compared<'_>) -> DeviceDiffView<'a> {
    DeviceDiffView {
        device: diff.devices.first().copied().unwrap_or_default(),
        devices: &diff.devices,
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
                bytes: &category.bytes,
            })
            .collect(),
        batch: batch.as_ref().ok().map(|fit| batch_view(fit, comparison.asked.capacity_bytes)),
        batch_unclear: batch.as_ref().err().map(|reason| reason.text()),
        call_sites: diff
            .sites
            .iter()
            .map(|site| SiteDiffView {
                change_bytes: site.change_bytes(),
                bytes: site.bytes.clone(),
                count: site.count.clone(),
                label: site.site.label,
                at: PlaceView::new(&comparison.analyses[site.stack.0], site.there, site.stack.1),
                frames: shown_frames(comparison.analyses, site),
            })
            .collect(),
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
        end_allocated_bytes: side.end.allocated_bytes,
        iterations: side.iterations,
    }
}

fn batch_view(fit: &BatchFit, capacity_bytes: Option<u64>) -> BatchView {
    BatchView {
        unit: if fit.is_by_rows { "row" } else { "first-batch" },
        iteration: if let Covers::Iteration(number) = fit.covers { Some(number) } else { None },
        fixed_bytes: fit.fixed_bytes,
        bytes_per_unit: fit.bytes_per_batch,
        bytes_per_unit_squared: fit.bytes_per_batch_squared,
        floor_bytes: fit.floor_bytes,
        largest_residual_bytes: fit.largest_residual_bytes(),
        points: fit
            .points
            .iter()
            .map(|point| PointView {
                batch: point.batch.value(),
                peak_bytes: point.peak_bytes,
                fitted_bytes: point.fitted_bytes,
            })
            .collect(),
        capacity: capacity_bytes.map(|bytes| CapacityView { bytes, largest_batch: fit.largest_batch(bytes) }),
    }
}
