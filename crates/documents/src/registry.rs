//! The list of all documents.

use crate::{ExplainView, LiveView, ReportView, SimulateView};

#[cfg(feature = "schema")]
use crate::Document;
use crate::check::CheckView;
use crate::columns::Manifest;
use crate::diff::DiffView;
use crate::diff_events::EventsDiffView;
use crate::doctor::DoctorView;
use crate::dryrun::DryrunView;
use crate::estimate::EstimateView;
use crate::manifest::ManifestView;
use crate::ranks::RanksView;
use crate::requests::RequestsView;
use crate::segments::SegmentsView;
use crate::serve::ServeView;
use crate::sql::SqlView;
use crate::stats::StatsView;
use crate::top::{LogLine, TopView};
use crate::totals::TotalsView;
use crate::trace::TraceView;
use crate::verify::VerifyView;

/// A kind of document.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// [`crate::Document::FORMAT`]
    pub format: &'static str,
    /// [`crate::Document::VERSION`]
    pub version: u32,
    /// The command that makes it.
    pub made_by: &'static str,
    /// Its contents in one line.
    pub about: &'static str,
    /// Makes its JSON Schema.
    #[cfg(feature = "schema")]
    pub schema: fn() -> schemars::Schema,
}

/// A change of a format.
#[derive(Clone, Copy, Debug)]
pub struct Change {
    /// The release that brought it.
    pub release: &'static str,
    /// Of which format.
    pub format: &'static str,
    /// Its version since then.
    pub version: u32,
    /// The change.
    pub what: &'static str,
}

/// A document with a schema, where schemas are made.
#[cfg(feature = "schema")]
trait Described: Document + schemars::JsonSchema {}

#[cfg(feature = "schema")]
impl<D: Document + schemars::JsonSchema> Described for D {}

#[cfg(not(feature = "schema"))]
use crate::Document as Described;

const fn kind<D: Described>(made_by: &'static str, about: &'static str) -> Kind {
    Kind {
        format: D::FORMAT,
        version: D::VERSION,
        made_by,
        about,
        #[cfg(feature = "schema")]
        schema: schema_of::<D>,
    }
}

#[cfg(feature = "schema")]
fn schema_of<D: Described>() -> schemars::Schema {
    schemars::generate::SchemaSettings::draft2020_12().for_serialize().into_generator().into_root_schema_for::<D>()
}

/// Every document, by its name.
pub const ALL: &[Kind] = &[
    kind::<CheckView>("highwater check --format json", "Budgets, and whether a recording meets them."),
    kind::<DiffView<'_>>("highwater diff --format json", "The changes from one recording to another."),
    kind::<EventsDiffView>(
        "highwater diff --events --format json",
        "Whether a program did exactly the same in two recordings.",
    ),
    kind::<DoctorView>("highwater doctor --format json", "The GPU memory setup of this machine, with suggested fixes."),
    kind::<DryrunView<'_>>("highwater dryrun --format json", "The memory that a script would use on an imitated GPU."),
    kind::<EstimateView>(
        "highwater estimate --format json",
        "The memory that a model needs, computed from its configuration.",
    ),
    kind::<ExplainView<'_>>("highwater explain --format json", "Why memory ran out, and how to fix it."),
    kind::<LiveView<'_>>("highwater live --format json", "The live blocks at a moment."),
    kind::<LogLine>("highwater top -o FILE", "The GPUs over time: a line of JSON for each moment."),
    kind::<ManifestView>("highwater run", "A rank of a job, beside its recording."),
    kind::<RanksView>(
        "highwater ranks --format json",
        "The ranks of a job side by side: groups, outliers and their causes.",
    ),
    kind::<ReportView<'_>>(
        "highwater report --format json",
        "The memory of a recording: peaks, call sites, \
     categories, findings.",
    ),
    kind::<RequestsView>("highwater simulate --requests FILE --format json", "Runs of a request program."),
    kind::<SegmentsView<'_>>("highwater segments --format json", "The map of the memory at the dump."),
    kind::<ServeView>(
        "highwater estimate --serve ENGINE --format json",
        "Whether an engine can serve a model on a GPU: its budget, its cache, its concurrency.",
    ),
    kind::<SimulateView<'_>>(
        "highwater simulate --format json",
        "A recording under other settings, with less memory, on other GPUs.",
    ),
    kind::<SqlView>("highwater sql --format json", "The rows that a query selects from the tables of recordings."),
    kind::<StatsView>("highwater stats --format json", "The values of `torch.cuda.memory_stats()`."),
    kind::<TopView<'_>>("highwater top --format json", "The GPUs at a moment."),
    kind::<TotalsView>(
        "highwater.record() without a history",
        "The totals at each mark, for allocators that keep no history.",
    ),
    kind::<TraceView<'_>>("highwater trace --format json", "The entries as they were recorded."),
    kind::<VerifyView<'_>>(
        "highwater simulate --verify --format json",
        "A recording, replayed and compared entry by entry.",
    ),
    kind::<Manifest>("highwater view", "The columns that the viewer draws."),
];

const FIRST: &str = "0.1.0";
const NEXT: &str = "next";

const fn change(release: &'static str, format: &'static str, version: u32, what: &'static str) -> Change {
    Change { release, format, version, what }
}

/// Every change of a format, the newest release first.
pub const CHANGES: &[Change] = &[
    change(
        NEXT,
        "highwater-view",
        1,
        "`outside` of a device, and its columns: memory outside PyTorch, where the driver was recorded. `other_actions`.",
    ),
    change(NEXT, "highwater-estimate", 1, "`setup.gpu`."),
    change(NEXT, "highwater-report", 1, "`driver`: the whole card, where the driver was recorded."),
    change(NEXT, "highwater-ranks", 1, "New."),
    change(NEXT, "highwater-manifest", 1, "New."),
    change(NEXT, "highwater-serve", 1, "New."),
    change(NEXT, "highwater-sql", 1, "New."),
    change(
        NEXT,
        "highwater-verify",
        1,
        "A name of its own: `highwater simulate --verify` called it `highwater-simulate`.",
    ),
    change(
        NEXT,
        "highwater-requests",
        1,
        "A name of its own: `highwater simulate --requests FILE` called it `highwater-simulate`.",
    ),
    change(
        NEXT,
        "highwater-simulate",
        1,
        "`requests`, `ends_at_error`, `short_name` of a card and `card_total_bytes` of a run are new; where \
         `ends_at_error` is true, `cards` of a fit is empty. `fidelity.first_difference` is that of \
         `highwater-verify`: `device` and `recorded` are new, `predicted` is \
         null rather than absent where a replay could not go on, and has no address for an `oom`.",
    ),
    change(
        NEXT,
        "highwater-report",
        1,
        "`has_history`, `envelope`, `growth_counted` and `growth_places` of a device, `places` of a finding and of an \
         out-of-memory event, `conf` of a finding and of a place, `ceiling` of a device, `cause` and `available_bytes` of such an event, `at_peak.elapsed_us` and `source.profile_name` are new.",
    ),
    change(NEXT, "highwater-check", 1, "`call_site_bytes` of a rule is new."),
    change(
        NEXT,
        "highwater-diff",
        1,
        "`is_profile`, `reserved_is_unknown` of a side, and of a batch `contradiction`, `batch_ratio` and `peaks` are new.",
    ),
    change(
        NEXT,
        "highwater-dryrun",
        1,
        "`explain`, `otherwise`, `late`, `late_after_first_step`, `few`, and of a process `timing_decides`, `could_differ`, \
         `last_read`, `without_gpu` and `convolutions_estimated` are new.",
    ),
    change(
        NEXT,
        "highwater-live",
        1,
        "`devices` is new: totals and call sites of each device. `place`, `own_frame` and `autograd_node` of a block are new.",
    ),
    change(NEXT, "highwater-trace", 1, "`place` of an entry is new."),
    change(NEXT, "highwater-explain", 1, "`conf` of a step is new."),
    change(
        NEXT,
        "highwater-explain",
        1,
        "`errors`, `error` and `engine` of a log are new, `missing_bytes` of a diagnosis, causes of engines and the host, the cause `not-memory`, and `forecast` and `no_forecast` beside an engine's numbers.",
    ),
    change(NEXT, "highwater-view", 1, "`ceiling` and `headline` of a device are new, and the section `explain`."),
    change(FIRST, "highwater-check", 1, "New."),
    change(FIRST, "highwater-diff", 1, "New."),
    change(FIRST, "highwater-diff-events", 1, "New."),
    change(FIRST, "highwater-doctor", 1, "New."),
    change(FIRST, "highwater-dryrun", 1, "New."),
    change(FIRST, "highwater-estimate", 1, "New."),
    change(FIRST, "highwater-explain", 1, "New."),
    change(FIRST, "highwater-live", 1, "New."),
    change(FIRST, "highwater-log", 1, "New."),
    change(FIRST, "highwater-report", 1, "New."),
    change(FIRST, "highwater-segments", 1, "New."),
    change(FIRST, "highwater-simulate", 1, "New."),
    change(FIRST, "highwater-stats", 1, "New."),
    change(FIRST, "highwater-top", 1, "New."),
    change(FIRST, "highwater-totals", 1, "New."),
    change(FIRST, "highwater-trace", 1, "New."),
    change(FIRST, "highwater-view", 1, "New."),
];
