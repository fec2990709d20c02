//! `highwater-report`.

use std::borrow::Cow;

use crate::{CeilingView, Document, Format, Version};
use highwater_analysis::Analysis;
use highwater_analysis::callsite::SiteTotal;
use highwater_analysis::category::Category;
use highwater_analysis::device::{Cause, DeviceAnalysis, Recorded};
use highwater_analysis::fragmentation::Fragmentation;
use highwater_analysis::growth::Growth;
use highwater_analysis::iteration::Iteration;
use highwater_analysis::oom::OutOfMemory;
use highwater_analysis::outline::Seen;
use highwater_analysis::timeline::{Peak, Timeline, Totals};
use highwater_analysis::torch_version::torch_version;
use highwater_snapshot::{BlockState, EntryId, Setting, Snapshot, Warning, Warnings};

use crate::places::{self, ViewerPlaceView};
use crate::{FrameView, PlaceView, frames_from_site};
use highwater_findings::explain::why;
use highwater_findings::verdict::verdict;
use highwater_findings::{Finding, findings_beside};

/// The whole report.
#[derive(Clone, Debug, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ReportView<'a> {
    pub(crate) format: Format<Self>,
    pub(crate) version: Version<Self>,
    /// The input file.
    pub source: SourceView,
    /// The answer in one sentence.
    pub verdict: String,
    /// One for each device; they are never summed.
    pub devices: Vec<DeviceView<'a>>,
    /// Pinned host memory, where it was recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<HostView>,
    /// The allocator's settings, in the order of the file.
    pub settings: SettingsView<'a>,
    /// Which PyTorch wrote it, as far as the file tells.
    pub torch: TorchView,
    /// Warnings.
    pub warnings: Vec<WarningView>,
    /// Durations, if requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timings: Option<TimingsView>,
}

impl Document for ReportView<'_> {
    const FORMAT: &'static str = "highwater-report";
    const VERSION: u32 = 1;
}

/// The input file.
#[derive(Clone, Debug, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SourceView {
    /// Bytes of pickle or JSON, decompressed.
    pub bytes: u64,
    /// `pickle protocol 4`, `JSON`.
    pub encoding: String,
    /// Whether the input ended too early.
    pub is_cut: bool,
    /// Which of the profiler's files it is: `chrome_trace`, `memory_timeline_raw`, `memory_timeline`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<&'static str>,
    /// The same in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile_name: Option<&'static str>,
}

/// Seconds of wall time.
#[derive(Clone, Copy, Debug, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TimingsView {
    /// From bytes to columns.
    pub read_secs: f64,
    /// From columns to the report.
    pub analyse_secs: f64,
}

/// The version that the file shows.
#[derive(Clone, Debug, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TorchView {
    /// A version, or a span such as `2.10 to 2.11`; `unknown` of a profiler's file.
    pub version: String,
    /// Whether it is one version for sure.
    pub known: bool,
}

impl TorchView {
    /// That of a snapshot.
    pub(crate) fn of(snapshot: &Snapshot) -> Self {
        if snapshot.profile.is_some() {
            return Self { version: "unknown".to_owned(), known: false };
        }
        let torch = torch_version(snapshot);
        Self { version: torch.to_string(), known: torch.is_known() }
    }
}

/// A warning of the reader or the analysis.
#[derive(Clone, Debug, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WarningView {
    /// A stable word for its kind.
    pub id: &'static str,
    /// The warning in words.
    pub message: String,
    /// How often.
    pub count: u64,
    /// Offset of the first case in the decompressed input.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub byte: Option<u64>,
    /// Device of the first case.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<u32>,
    /// Entry of the first case.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entry: Option<u32>,
}

/// Warnings about the file, then about contradictions in it, each in order of first appearance.
pub fn warnings(analysis: &Analysis<'_>) -> Vec<WarningView> {
    WarningView::all(&analysis.snapshot.warnings).chain(WarningView::all(&analysis.warnings)).collect()
}

impl WarningView {
    /// One for each kind, in order of first appearance.
    pub fn all(warnings: &Warnings) -> impl Iterator<Item = Self> + '_ {
        warnings.iter().map(Self::new)
    }

    fn new(warning: &Warning) -> Self {
        Self {
            id: warning.id,
            message: warning.message.clone(),
            count: warning.count,
            byte: warning.first.byte,
            device: warning.first.device,
            entry: warning.first.entry,
        }
    }
}

/// The settings as one JSON object.
#[derive(Clone, Debug)]
pub struct SettingsView<'a>(pub &'a [(String, Setting)]);

/// One setting as a JSON value.
#[derive(Clone, Debug)]
pub struct SettingView<'a>(pub &'a Setting);

/// A setting may be a table of settings, and that is all there is to say of its type.
#[cfg(feature = "schema")]
mod settings_schema {
    use std::borrow::Cow;

    use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

    use super::{SettingView, SettingsView};

    impl JsonSchema for SettingsView<'_> {
        fn schema_name() -> Cow<'static, str> {
            "Settings".into()
        }

        fn inline_schema() -> bool {
            true
        }

        fn json_schema(_: &mut SchemaGenerator) -> Schema {
            json_schema!({"type": "object", "additionalProperties": true})
        }
    }

    impl JsonSchema for SettingView<'_> {
        fn schema_name() -> Cow<'static, str> {
            "Setting".into()
        }

        fn inline_schema() -> bool {
            true
        }

        fn json_schema(_: &mut SchemaGenerator) -> Schema {
            json_schema!({"type": ["boolean", "integer", "number", "string", "object"]})
        }
    }
}

impl serde::Serialize for SettingsView<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(key, value)| (key, SettingView(value))))
    }
}

impl serde::Serialize for SettingView<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Setting::Bool(flag) => serializer.serialize_bool(*flag),
            Setting::Int(number) => serializer.serialize_i64(*number),
            Setting::Float(number) => serializer.serialize_f64(*number),
            Setting::Text(text) => serializer.serialize_str(text),
            Setting::Table(table) => SettingsView(table).serialize(serializer),
        }
    }
}

/// One device.
#[derive(Clone, Debug, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DeviceView<'a> {
    /// CUDA ordinal.
    pub device: u32,
    /// Number of trace entries.
    pub entries: usize,
    /// Whether a history was recorded; without one, only the state at the dump is known.
    pub has_history: bool,
    /// How much of the run they hold.
    pub recorded: RecordedView,
    /// Before the first entry.
    pub start: Totals,
    /// At the dump, as `memory_stats()` says.
    pub end: highwater_snapshot::EndTotals,
    /// The maximum of each total over the recording.
    pub peak: PeakView,
    /// How far allocated and active bytes are known.
    pub block_sizes: BlockSizesView,
    /// The moment of the largest allocated bytes.
    pub at_peak: AtPeakView<'a>,
    /// Free memory at the dump.
    pub fragmentation: FragmentationView,
    /// How iterations were found: `highwater.step()`, `optimizer steps` or `repetition in the trace`.
    pub iterations_by: Cow<'static, str>,
    /// The word for them: `iterations`, `tokens` or `sampling steps`.
    pub iterations_are: &'static str,
    /// Where there are none, the forward passes that were recorded instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seen: Option<String>,
    /// Each iteration.
    pub iterations: Vec<IterationView>,
    /// Memory that iterations leave behind, by call site.
    pub growth: Vec<GrowthView<'a>>,
    /// The first and the last iteration that count for growth; null where there are too few to tell.
    pub growth_counted: Option<[usize; 2]>,
    /// Where in the viewer that growth is seen.
    pub growth_places: Vec<ViewerPlaceView>,
    /// Out-of-memory events.
    pub oom: Vec<OomView<'a>>,
    /// The level that reserved memory could not pass, where a request failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ceiling: Option<CeilingView>,
    /// The findings.
    pub findings: Vec<FindingView>,
    /// The totals over the trace, for a small picture.
    pub envelope: EnvelopeView,
}

/// A finding, and where in the viewer it is seen.
#[derive(Clone, Debug, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FindingView {
    /// The finding itself.
    #[serde(flatten)]
    pub finding: Finding,
    /// Where in the viewer it is seen.
    pub places: Vec<ViewerPlaceView>,
}

impl std::ops::Deref for FindingView {
    type Target = Finding;

    fn deref(&self) -> &Finding {
        &self.finding
    }
}

/// The highest totals in equal parts of the trace, in order: a picture of it that loses no peak.
#[derive(Clone, Debug, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EnvelopeView {
    /// The total named by `at_peak.by`.
    pub bytes: Vec<u64>,
    /// Reserved bytes.
    pub reserved_bytes: Vec<u64>,
}

impl EnvelopeView {
    fn new(device: &DeviceAnalysis<'_>, columns: usize) -> Self {
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
const ENVELOPE_COLUMNS: usize = 86;

/// How much of the run the trace holds.
#[derive(Clone, Debug, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RecordedView {
    /// Nothing was there before the first entry.
    pub from_start: bool,
    /// Entries were lost: the ring buffer wrapped, or the file was cut.
    pub truncated: bool,
    /// Why it does not hold the whole run, by name: see [`Cause::name`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<&'static str>,
    /// Advice for a complete recording.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advice: Option<&'static str>,
    /// Why, in words.
    pub reason: Option<String>,
}

impl RecordedView {
    pub(super) fn new(recorded: &Recorded) -> Self {
        Self {
            from_start: recorded.from_start,
            truncated: recorded.truncated,
            cause: recorded.cause.map(Cause::name),
            advice: recorded.cause.map(Cause::advice),
            reason: recorded.reason.clone(),
        }
    }
}

/// The maximum of each total over the recording, and the entry after which it is first reached (null: before the first).
#[derive(Clone, Copy, Debug, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PeakView {
    /// Requested.
    pub requested_bytes: u64,
    /// In blocks that tensors own. The least that it may be, where [`BlockSizesView::known`] is `bounds`.
    pub allocated_bytes: u64,
    /// Allocated, and awaiting free. The least, likewise.
    pub active_bytes: u64,
    /// Held from the driver.
    pub reserved_bytes: u64,
    /// The most that the allocated bytes may be, where that is more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocated_bytes_at_most: Option<u64>,
    /// The most that the active bytes may be, where that is more.
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
    fn new(timeline: &Timeline<'_>) -> Self {
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

/// How far the sizes of blocks are known, on which allocated and active bytes rest.
#[derive(Clone, Debug, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BlockSizesView {
    /// `exact`, `bounds` or `estimate`.
    #[cfg_attr(feature = "schema", schemars(extend("enum" = ["exact", "bounds", "estimate"])))]
    pub known: &'static str,
    /// Why they are not exact.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl BlockSizesView {
    fn new(device: &DeviceAnalysis<'_>) -> Self {
        let blocks = device.blocks();
        Self { known: blocks.knowledge().name(), reason: blocks.reason() }
    }
}

/// Live memory at the peak.
#[derive(Clone, Debug, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AtPeakView<'a> {
    /// Which total's peak it is.
    pub by: &'static str,
    /// The entry after which it is first reached; null if it stands before the first entry.
    pub entry: Option<u32>,
    /// When that was.
    pub time_us: Option<i64>,
    /// Microseconds from the first entry whose time is known until then.
    pub elapsed_us: Option<i64>,
    /// The iteration that it falls in.
    pub iteration: Option<usize>,
    /// The phase of that iteration.
    pub phase: Option<&'static str>,
    /// The annotated scopes around it, outermost first.
    pub scopes: Vec<&'a str>,
    /// Requested bytes at that moment.
    pub requested_bytes: u64,
    /// Allocated bytes at that moment.
    pub allocated_bytes: u64,
    /// Active bytes at that moment.
    pub active_bytes: u64,
    /// Reserved bytes at that moment.
    pub reserved_bytes: u64,
    /// Bytes by category, of the total named by `by`, which is their sum.
    pub categories: CategoriesView,
    /// Why much is `unknown`, where it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unknown_because: Option<&'static str>,
    /// Bytes by call site, of the total named by `by`, largest first.
    pub call_sites: Vec<CallSiteView<'a>>,
}

/// Bytes by category.
#[derive(Clone, Copy, Debug, Default, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CategoriesView {
    /// Weights and buffers of the model.
    pub parameter: u64,
    /// Their gradients.
    pub gradient: u64,
    /// State that the optimizer keeps.
    pub optimizer_state: u64,
    /// Kept for the backward pass.
    pub activation: u64,
    /// Kept from one call of the model to the next.
    pub cache: u64,
    /// Data that the program feeds in.
    pub input: u64,
    /// Short-lived memory.
    pub temporary: u64,
    /// Memory that libraries keep.
    pub workspace: u64,
    /// Unknown.
    pub unknown: u64,
}

impl CategoriesView {
    /// Of bytes in the order of [`Category::ALL`].
    pub fn new(bytes: [u64; Category::ALL.len()]) -> Self {
        let of = |category: Category| bytes[category as usize];
        Self {
            parameter: of(Category::Parameter),
            gradient: of(Category::Gradient),
            optimizer_state: of(Category::OptimizerState),
            activation: of(Category::Activation),
            cache: of(Category::Cache),
            input: of(Category::Input),
            temporary: of(Category::Temporary),
            workspace: of(Category::Workspace),
            unknown: of(Category::Unknown),
        }
    }

    /// Each category with its bytes, in the order of reports.
    pub fn named(&self) -> [(&'static str, u64); Category::ALL.len()] {
        let bytes = [
            self.parameter,
            self.gradient,
            self.optimizer_state,
            self.activation,
            self.cache,
            self.input,
            self.temporary,
            self.workspace,
            self.unknown,
        ];
        let mut row = 0;
        Category::ALL.map(|category| {
            row += 1;
            (category.name(), bytes[row - 1])
        })
    }
}

/// Allocations of one call site.
#[derive(Clone, Debug, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CallSiteView<'a> {
    /// Bytes of the total named by [`AtPeakView::by`]: of allocated bytes, those of the blocks.
    pub bytes: u64,
    /// Requested bytes.
    pub requested_bytes: u64,
    /// Allocations.
    pub count: u64,
    /// The words for it where there is no frame.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<&'a str>,
    /// The site in words, and whose it is.
    #[serde(flatten)]
    pub at: PlaceView<'a>,
    /// The line that stands for it, then its callers, folded to the user's own code.
    pub frames: Vec<FrameView<'a>>,
}

/// Free memory at the dump; each measure is defined in [`Fragmentation`].
#[derive(Clone, Copy, Debug, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FragmentationView {
    /// Reserved and in no active block.
    pub free_bytes: u64,
    /// Of the reserved bytes, the share that is free.
    pub free_share: Option<f64>,
    /// In segments with nothing active: `empty_cache()` releases them.
    pub releasable_bytes: u64,
    /// In segments that are partly in use, expandable ones not counted: PyTorch's own measure.
    pub inactive_split_bytes: u64,
    /// The largest free block.
    pub largest_free_block_bytes: u64,
    /// Of the free bytes, the share outside the largest free block.
    pub scattered_share: Option<f64>,
    /// Active bytes beyond the requested ones.
    pub rounding_bytes: u64,
    /// Free bytes in private pools.
    pub private_pool_free_bytes: u64,
    /// Free bytes on streams other than the main one.
    pub other_streams_free_bytes: u64,
    /// Reserved less requested bytes, at the peak: the free and the rounding bytes of that moment.
    pub unused_at_peak_bytes: u64,
    /// Reserved and in no active block, at the peak.
    pub free_at_peak_bytes: u64,
    /// Active bytes beyond the requested ones, at the peak.
    pub rounding_at_peak_bytes: u64,
}

impl FragmentationView {
    fn new(measured: &Fragmentation, peak: &Totals) -> Self {
        Self {
            free_bytes: measured.free_bytes,
            free_share: measured.free_share(),
            releasable_bytes: measured.releasable_bytes,
            inactive_split_bytes: measured.inactive_split_bytes,
            largest_free_block_bytes: measured.largest_free_block_bytes,
            scattered_share: measured.scattered_share(),
            rounding_bytes: measured.rounding_bytes,
            private_pool_free_bytes: measured.private_pool_free_bytes,
            other_streams_free_bytes: measured.other_streams_free_bytes,
            unused_at_peak_bytes: peak.reserved_bytes.saturating_sub(peak.requested_bytes),
            free_at_peak_bytes: peak.reserved_bytes.saturating_sub(peak.active_bytes),
            rounding_at_peak_bytes: peak.active_bytes.saturating_sub(peak.requested_bytes),
        }
    }
}

/// One iteration.
#[derive(Clone, Debug, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct IterationView {
    /// First entry.
    pub start_entry: usize,
    /// Last entry.
    pub end_entry: usize,
    /// Whether it was recorded from its begin to its end.
    pub complete: bool,
    /// The highest requested bytes.
    pub peak_requested_bytes: u64,
    /// The entry of the highest bytes of the total named by [`AtPeakView::by`].
    pub peak_entry: Option<u32>,
    /// The highest allocated bytes.
    pub peak_allocated_bytes: u64,
    /// The most that those may be, where that is more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peak_allocated_bytes_at_most: Option<u64>,
    /// Requested bytes at its end.
    pub end_requested_bytes: u64,
    /// Allocated bytes at its end.
    pub end_allocated_bytes: u64,
    /// The most that those may be, where that is more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end_allocated_bytes_at_most: Option<u64>,
    /// The highest reserved bytes.
    pub peak_reserved_bytes: u64,
    /// Bytes by category after `peak_entry`, of the total named by [`AtPeakView::by`]; absent where there is no such entry.
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
    /// Bytes left behind an iteration, in the mean.
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

/// One out-of-memory event.
#[derive(Clone, Debug, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OomView<'a> {
    /// The entry.
    pub entry: u32,
    /// When.
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

/// Pinned host memory at the dump.
#[derive(Clone, Copy, Debug, Default, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HostView {
    /// Number of trace entries.
    pub entries: usize,
    /// Held from the system.
    pub reserved_bytes: u64,
    /// In use.
    pub allocated_bytes: u64,
}

/// Makes the report.
pub fn report<'a>(analysis: &Analysis<'a>) -> ReportView<'a> {
    report_but(analysis, |_| false, ENVELOPE_COLUMNS)
}

/// As [`report`], without some kinds of findings, and with another number of parts of the envelope.
pub fn report_but<'a>(
    analysis: &Analysis<'a>,
    is_left_out: impl Fn(&str) -> bool,
    envelope_columns: usize,
) -> ReportView<'a> {
    let snapshot = analysis.snapshot;
    ReportView {
        format: Format::default(),
        version: Version::default(),
        source: SourceView {
            bytes: snapshot.bytes,
            encoding: snapshot.encoding.to_string(),
            is_cut: snapshot.cut.is_some(),
            profile: snapshot.profile.as_ref().map(|profile| profile.form.key()),
            profile_name: snapshot.profile.as_ref().map(|profile| profile.form.name()),
        },
        verdict: verdict(analysis),
        devices: analysis
            .devices
            .iter()
            .map(|device| device_view(analysis, device, &is_left_out, envelope_columns))
            .collect(),
        host: host_view(analysis),
        settings: SettingsView(&snapshot.settings.entries),
        torch: TorchView::of(snapshot),
        warnings: warnings(analysis),
        timings: None,
    }
}

fn device_view<'a>(
    analysis: &Analysis<'a>,
    device: &DeviceAnalysis<'a>,
    is_left_out: &impl Fn(&str) -> bool,
    envelope_columns: usize,
) -> DeviceView<'a> {
    let views = || (at_peak(analysis, device), iteration_views(device, analysis.snapshot));
    let (findings, (at_peak, iterations)) = findings_beside(analysis, device, is_left_out, views);
    let growth: Vec<_> = device.growth.iter().map(|growth| growth_view(analysis, growth)).collect();
    let growth_counted =
        highwater_analysis::growth::counted(&device.iterations).map(|(rows, _)| [rows.start, rows.end - 1]);
    let mut view = DeviceView {
        device: device.device,
        entries: device.entries.len(),
        has_history: device.has_history(),
        recorded: RecordedView::new(&device.recorded),
        start: device.timeline.start(),
        end: device.end,
        peak: PeakView::new(&device.timeline),
        block_sizes: BlockSizesView::new(device),
        at_peak,
        fragmentation: FragmentationView::new(&device.fragmentation, &device.totals(device.peak().entry)),
        iterations_by: device.iterations.by(),
        iterations_are: device.iterations.unit.plural(),
        seen: device.seen.as_ref().map(Seen::text),
        growth_places: places::of_growth(growth.first(), growth_counted, &iterations),
        growth,
        growth_counted,
        iterations,
        oom: device.oom.iter().map(|oom| oom_view(analysis, device, oom)).collect(),
        ceiling: CeilingView::of(device),
        findings: Vec::new(),
        envelope: EnvelopeView::new(device, envelope_columns),
    };
    view.findings = findings
        .into_iter()
        .map(|finding| FindingView { places: places::of_finding(&finding, &view), finding })
        .collect();
    view
}

/// Why at least a twentieth of live memory has no category.
fn unknown_because(device: &DeviceAnalysis<'_>, categories: &CategoriesView) -> Option<&'static str> {
    let all = categories.named().iter().map(|&(_, bytes)| bytes).fold(0, u64::saturating_add);
    if categories.unknown <= all / 20 {
        return None;
    }
    Some(if !device.has_history() {
        "no history was recorded, so only the stacks of blocks show their purpose, and blocks allocated before the \
         recording have none"
    } else if !device.recorded.from_start {
        "it was allocated before the recording, and its sizes, addresses and end do not show its category"
    } else {
        "no rule matches it: `highwater live --blocks` shows where it was allocated"
    })
}

fn at_peak<'a>(analysis: &Analysis<'a>, device: &DeviceAnalysis<'a>) -> AtPeakView<'a> {
    let entry = device.peak().entry;
    let totals = device.totals(entry);
    let iteration = entry.and_then(|entry| device.iterations.containing(entry));
    let phase = entry.zip(iteration).and_then(|(entry, iteration)| {
        let phases = &device.iterations.rows[iteration].phases;
        phases.iter().find(|run| run.entries.contains(&entry.index())).map(|run| run.phase.name())
    });
    let categories = CategoriesView::new(device.counted_by_category(entry, analysis.snapshot));
    let scopes = entry.map(|entry| device.scopes_at(entry).map(|scope| analysis.snapshot.text(scope.name)).collect());
    AtPeakView {
        by: device.by.key(),
        entry: entry.map(EntryId::get),
        time_us: entry.and_then(|entry| device.entries.time_us(entry)),
        elapsed_us: entry
            .and_then(|entry| device.entries.time_us(entry))
            .zip(device.entries.ids().find_map(|id| device.entries.time_us(id)))
            .map(|(time, first)| time.saturating_sub(first)),
        iteration,
        phase,
        scopes: scopes.unwrap_or_default(),
        requested_bytes: totals.requested_bytes,
        allocated_bytes: totals.allocated_bytes,
        active_bytes: totals.active_bytes,
        reserved_bytes: totals.reserved_bytes,
        categories,
        unknown_because: unknown_because(device, &categories),
        call_sites: device
            .counted_by_site(entry, analysis.snapshot, &analysis.sites)
            .iter()
            .map(|total| call_site_view(analysis, total))
            .collect(),
    }
}

pub(super) fn call_site_view<'a>(analysis: &Analysis<'a>, total: &SiteTotal) -> CallSiteView<'a> {
    CallSiteView {
        bytes: total.bytes,
        requested_bytes: total.requested_bytes,
        count: total.count,
        label: total.site.label(analysis.snapshot),
        at: PlaceView::new(analysis, total.site, total.stack),
        frames: frames_from_site(analysis, total.site, total.stack),
    }
}

fn iteration_views(device: &DeviceAnalysis<'_>, snapshot: &Snapshot) -> Vec<IterationView> {
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

fn growth_view<'a>(analysis: &Analysis<'a>, growth: &Growth) -> GrowthView<'a> {
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

fn oom_view<'a>(analysis: &Analysis<'a>, device: &DeviceAnalysis<'_>, oom: &OutOfMemory) -> OomView<'a> {
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

fn host_view(analysis: &Analysis<'_>) -> Option<HostView> {
    let host = analysis.snapshot.host.as_ref()?;
    let mut view = HostView { entries: host.trace.len(), ..HostView::default() };
    for segment in &host.segments {
        view.reserved_bytes = view.reserved_bytes.saturating_add(segment.total_bytes);
        for block in analysis.snapshot.blocks_of(segment) {
            if block.state == BlockState::ActiveAllocated {
                view.allocated_bytes = view.allocated_bytes.saturating_add(block.size_bytes);
            }
        }
    }
    Some(view)
}
