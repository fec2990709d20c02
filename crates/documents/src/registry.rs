//! The list of all documents.

use crate::{ExplainView, LiveView, ReportView, SimulateView};
use highwater_monitor::log;

use crate::Document;
use crate::check::CheckView;
use crate::columns::Manifest;
use crate::diff::DiffView;
use crate::diff_events::EventsDiffView;
use crate::doctor::DoctorView;
use crate::dryrun::DryrunView;
use crate::estimate::EstimateView;
use crate::requests::RequestsView;
use crate::segments::SegmentsView;
use crate::stats::StatsView;
use crate::top::TopView;
use crate::totals::TotalsView;
use crate::trace::TraceView;
use crate::verify::VerifyView;

/// A kind of document.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// [`Document::FORMAT`]
    pub format: &'static str,
    /// [`Document::VERSION`]
    pub version: u32,
    /// What makes it, as it is typed.
    pub made_by: &'static str,
    /// What it says, in one line.
    pub about: &'static str,
}

const fn kind<D: Document>(made_by: &'static str, about: &'static str) -> Kind {
    Kind { format: D::FORMAT, version: D::VERSION, made_by, about }
}

/// Every document, by its name.
pub const ALL: &[Kind] = &[
    kind::<CheckView>("highwater check --format json", "Budgets, and whether they are kept."),
    kind::<DiffView<'_>>("highwater diff --format json", "What changed from one recording to another."),
    kind::<EventsDiffView>(
        "highwater diff --events --format json",
        "Whether two recordings are of a program that did the very same.",
    ),
    kind::<DoctorView>("highwater doctor --format json", "The set-up at a glance, and what to change."),
    kind::<DryrunView<'_>>(
        "highwater dryrun --format json",
        "What a script would have taken on a card that is imagined.",
    ),
    kind::<EstimateView>("highwater estimate --format json", "What a model needs, worked out from its configuration."),
    kind::<ExplainView<'_>>("highwater explain --format json", "Why memory ran out, and what to change."),
    kind::<LiveView<'_>>("highwater live --format json", "The blocks that are there at a moment."),
    kind::<log::Header>("highwater top --record FILE", "The GPUs over time: a line of JSON for each moment."),
    kind::<ReportView<'_>>("highwater report --format json", "What filled the GPU, and when."),
    kind::<RequestsView>("highwater simulate --requests FILE --format json", "Runs of a request program."),
    kind::<SegmentsView<'_>>("highwater segments --format json", "The map of the memory at the dump."),
    kind::<SimulateView<'_>>(
        "highwater simulate --format json",
        "A recording under other settings, with less memory, on other cards.",
    ),
    kind::<StatsView>("highwater stats --format json", "What `torch.cuda.memory_stats()` would have said."),
    kind::<TopView<'_>>("highwater top --format json", "The GPUs at a moment."),
    kind::<TotalsView>(
        "highwater.record() without a history",
        "The totals at each mark, where an allocator keeps no history.",
    ),
    kind::<TraceView<'_>>("highwater trace --format json", "The entries as they were recorded."),
    kind::<VerifyView<'_>>(
        "highwater simulate --verify --format json",
        "A recording, replayed and compared entry by entry.",
    ),
    kind::<Manifest>("highwater view", "The columns that the viewer draws."),
];
