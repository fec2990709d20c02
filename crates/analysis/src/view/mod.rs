//! Plain structures for a screen, a table or JSON: the wire formats of what is analysed.
//!
//! Each format carries its name and an integer version. Names may be added; what is there stays.

pub mod answer;
pub mod columns;
mod explain;
mod live;
mod report;
mod simulate;

pub use explain::{
    DiagnosisView, ExplainView, FailureExplainedView, GapsView, LimitView, MessageView, ProcessView, ShareView,
    StepView,
};
pub use live::{BlockView, LiveView, live};
pub use report::{
    AtPeakView, BlockSizesView, CallSiteView, CategoriesView, DeviceView, FragmentationView, GrowthView, HostView,
    IterationView, OomView, PeakView, PhaseView, RecordedView, ReportView, SettingView, SourceView, TimingsView,
    TorchView, WarningView, report, report_but, warnings,
};

pub use simulate::{
    AlarmView, BarView, BoundView, CardView, DifferenceView, EmptyCacheView, FailureView, FidelityView, FitView,
    LargestView, PinningSiteView, PinningView, PredictedView, RulesView, RunView, SimulateView, SiteView, TimelineView,
    VerdictView,
};

use report::call_site_view;
use simulate::frames_of_entry;

use highwater_snapshot::{FrameId, Snapshot};

use crate::Analysis;
use crate::callsite::Site;

/// A frame.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct FrameView<'a> {
    /// The function.
    pub name: &'a str,
    /// The file.
    pub filename: &'a str,
    /// The line.
    pub line: u64,
}

impl<'a> FrameView<'a> {
    /// The frame of an id.
    pub fn new(snapshot: &'a Snapshot, id: FrameId) -> Self {
        let frame = snapshot.frames.get(id);
        Self { name: snapshot.text(frame.name), filename: snapshot.text(frame.filename), line: frame.line }
    }
}

/// The frames of a stack that are worth reading, the site's own first.
fn frames_from_site<'a>(analysis: &Analysis<'a>, site: Site, stack: highwater_snapshot::StackId) -> Vec<FrameView<'a>> {
    let shown = analysis.sites.shown_frames(analysis.snapshot, stack);
    let from = match site {
        Site::Frame(frame) => shown.iter().position(|&f| f == frame).unwrap_or(0),
        _ => 0,
    };
    shown[from..].iter().map(|&frame| FrameView::new(analysis.snapshot, frame)).collect()
}
