//! Out-of-memory events of a report.

use highwater_analysis::Analysis;
use highwater_analysis::device::DeviceAnalysis;
use highwater_analysis::oom::OutOfMemory;
use highwater_findings::explain::why;

use crate::places::{self, ViewerPlaceView};
use crate::{FrameView, PlaceView, frames_from_site};

/// One out-of-memory event.
#[derive(Clone, Debug, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OomView<'a> {
    /// The entry.
    pub entry: u32,
    /// The time.
    pub time_us: Option<i64>,
    /// The request, rounded.
    pub requested_bytes: u64,
    /// Bytes requested from the driver.
    pub segment_bytes: u64,
    /// Free memory that the driver reported.
    pub device_free_bytes: Option<u64>,
    /// Memory available to this process: reserved, plus free on the device.
    pub available_bytes: Option<u64>,
    /// Why it failed: one of the causes of `highwater explain`.
    pub cause: &'static str,
    /// Causes that contribute.
    pub also: Vec<&'static str>,
    /// In use at that moment.
    pub live_requested_bytes: u64,
    /// In blocks that tensors own, at that moment.
    pub allocated_bytes: u64,
    /// In active blocks at that moment.
    pub active_bytes: u64,
    /// Reserved at that moment.
    pub reserved_bytes: u64,
    /// Why it failed, in words.
    pub explanation: String,
    /// Where in the viewer it is seen.
    pub places: Vec<ViewerPlaceView>,
    /// The site in words, and whose it is.
    #[serde(flatten)]
    pub at: PlaceView<'a>,
    /// The stack of the request.
    pub frames: Vec<FrameView<'a>>,
}

pub(super) fn oom_view<'a>(analysis: &Analysis<'a>, device: &DeviceAnalysis<'_>, oom: &OutOfMemory) -> OomView<'a> {
    let why = why(analysis, device, oom);
    OomView {
        entry: oom.entry.get(),
        time_us: device.entries.time_us(oom.entry),
        requested_bytes: oom.requested_bytes,
        segment_bytes: oom.segment_bytes,
        device_free_bytes: oom.device_free_bytes,
        available_bytes: oom.available_bytes(),
        cause: why.diagnosis.cause.name(),
        also: why.diagnosis.also.iter().map(|cause| cause.name()).collect(),
        live_requested_bytes: oom.totals.requested_bytes,
        allocated_bytes: oom.totals.allocated_bytes,
        active_bytes: oom.totals.active_bytes,
        reserved_bytes: oom.totals.reserved_bytes,
        explanation: why.diagnosis.text,
        places: places::of_error(oom.entry.get()),
        at: PlaceView::new(analysis, analysis.sites.site(oom.stack), oom.stack),
        frames: frames_from_site(analysis, analysis.sites.site(oom.stack), oom.stack),
    }
}
