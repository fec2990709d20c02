//! Every JSON document of highwater: its shape, its name and its version.
//!
//! The only crate that decides how an answer looks as JSON. Text, Markdown, the page and the Python package are written from these
//! documents, so that none of them can know more than the JSON. Bytes are integers named `*_bytes`, entries are indexes into a device's
//! trace. Names may be added to a document; a name that is there stays, and keeps its meaning.

mod colours;
mod header;

#[cfg(feature = "recording")]
pub mod answer;
#[cfg(feature = "recording")]
mod ceiling;
#[cfg(feature = "recording")]
pub mod check;
#[cfg(feature = "recording")]
pub mod columns;
#[cfg(feature = "recording")]
pub mod diff;
#[cfg(feature = "recording")]
pub mod diff_events;
#[cfg(feature = "monitor")]
pub mod doctor;
#[cfg(feature = "dryrun")]
pub mod dryrun;
#[cfg(feature = "estimate")]
pub mod estimate;
#[cfg(feature = "explain")]
mod explain;
#[cfg(feature = "recording")]
mod frames;
#[cfg(feature = "recording")]
mod live;
#[cfg(feature = "explain")]
mod log;
#[cfg(feature = "recording")]
pub mod manifest;
#[cfg(feature = "recording")]
mod place;
#[cfg(feature = "recording")]
mod places;
#[cfg(feature = "recording")]
pub mod ranks;
#[cfg(feature = "registry")]
mod registry;
#[cfg(feature = "recording")]
mod report;
#[cfg(feature = "recording")]
pub mod requests;
#[cfg(feature = "recording")]
pub mod segments;
#[cfg(feature = "estimate")]
pub mod serve;
#[cfg(feature = "recording")]
mod simulate;
#[cfg(feature = "recording")]
pub mod sql;
#[cfg(feature = "recording")]
pub mod stats;
#[cfg(feature = "monitor")]
pub mod top;
#[cfg(feature = "recording")]
pub mod totals;
#[cfg(feature = "recording")]
pub mod trace;
#[cfg(feature = "recording")]
pub mod verify;

#[cfg(feature = "recording")]
pub use ceiling::CeilingView;
pub use colours::{CATEGORY_COLOURS, category_colour};
#[cfg(feature = "explain")]
pub use explain::{
    DiagnosisView, ExplainView, FailureExplainedView, GapsView, LimitView, MessageView, ProcessView, ShareView,
    StepView, explain,
};
pub use header::{Document, Format, Version};
#[cfg(feature = "recording")]
pub use live::{BlockView, LiveDeviceView, LiveView, live};
#[cfg(feature = "explain")]
pub use log::{EngineView, ErrorView, ValueView};
#[cfg(feature = "recording")]
pub use place::{FrameView, PlaceView, frames_from_site};
#[cfg(feature = "recording")]
pub use places::{SelectionView, ViewerPlaceView};
#[cfg(feature = "registry")]
pub use registry::{ALL, CHANGES, Change, Kind};
#[cfg(feature = "recording")]
pub use report::{
    AtPeakView, BlockSizesView, CallSiteView, CardMomentView, CardUseView, CategoriesView, ComparedView, DeviceView,
    DriverFrameView, DriverGapView, DriverLineView, DriverSiteView, DriverView, EnvelopeView, FindingView,
    FragmentationView, GrowthView, HostView, IterationView, OomView, OwnerView, PeakView, PhaseView, RecordedView,
    ReportView, SettingView, SourceView, TimingsView, TorchView, TouchView, TouchedView, WarningView, WorkView, report,
    report_but, warnings,
};
#[cfg(feature = "recording")]
pub use simulate::{
    AlarmView, BarView, BoundView, CardView, EmptyCacheView, FailureView, FitView, LargestView, PinningSiteView,
    PinningView, RulesView, RunView, SimulateView, SiteView, TimelineView, VerdictView,
};
