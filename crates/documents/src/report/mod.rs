//! `highwater-report`.

mod driver;
mod out_of_memory;
mod over_time;
mod source;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::OnceLock;

use highwater_analysis::Analysis;
use highwater_analysis::callsite::SiteTotal;
use highwater_analysis::category::Category;
use highwater_analysis::device::{Cause, DeviceAnalysis, Recorded};
use highwater_analysis::fragmentation::Fragmentation;
use highwater_analysis::outline::Seen;
use highwater_analysis::phase::are_stacks_cut;
use highwater_analysis::timeline::Totals;
use highwater_findings::verdict::verdict;
use highwater_findings::{Finding, findings_beside};
use highwater_snapshot::{BlockState, EntryId};
use highwater_whatif::Study;

pub(crate) use self::driver::site_of;
pub use self::driver::{
    CardMomentView, CardUseView, ComparedView, DriverFrameView, DriverGapView, DriverLineView, DriverSiteView,
    DriverView, OwnerView, TouchView, TouchedView, WorkView,
};
pub use self::out_of_memory::OomView;
pub use self::over_time::{EnvelopeView, GrowthView, IterationView, PeakView, PhaseView};
pub use self::source::{SettingView, SourceView, TorchView, WarningView, warnings};

use self::out_of_memory::oom_view;
use self::over_time::{ENVELOPE_COLUMNS, growth_view, iteration_views};
use self::source::SettingsView;
use crate::places::{self, ViewerPlaceView};
use crate::{CeilingView, Document, Format, FrameView, PlaceView, Version, frames_from_site};

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
    /// All memory of the process on its GPUs, where the driver was recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub driver: Option<DriverView>,
    /// Pinned host memory, where it was recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<HostView>,
    /// The allocator's settings, in the order of the file.
    pub settings: SettingsView<'a>,
    /// The version of PyTorch that wrote it, as far as the file shows.
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

/// Seconds of wall time.
#[derive(Clone, Copy, Debug, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TimingsView {
    /// From bytes to columns.
    pub read_secs: f64,
    /// From columns to the report.
    pub analyse_secs: f64,
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
    /// The part of the run that they hold.
    pub recorded: RecordedView,
    /// Before the first entry.
    pub start: Totals,
    /// At the dump, as `memory_stats()` says.
    pub end: highwater_snapshot::EndTotals,
    /// The maximum of each total over the recording.
    pub peak: PeakView,
    /// How exactly allocated and active bytes are known.
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
    /// The first and the last iteration that count for growth; null if there are too few.
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

/// A finding, with its place in the viewer.
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

/// The part of the run that the trace holds.
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

/// How exactly the sizes of blocks are known. Allocated and active bytes depend on them.
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
    /// The entry after which it is first reached; null if it is before the first entry.
    pub entry: Option<u32>,
    /// The time of that peak.
    pub time_us: Option<i64>,
    /// Microseconds since the first entry with a known time.
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
    /// Why much is `unknown`, if it is.
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
    /// The words for the call site if there is no frame.
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
    report_but(analysis, BTreeMap::new(), |_| false, ENVELOPE_COLUMNS)
}

/// As [`report`], with [studies](highwater_findings::studies) of devices if they are there, without some kinds of findings, and with another
/// number of parts of the envelope.
pub fn report_but<'a>(
    analysis: &Analysis<'a>,
    mut studies: BTreeMap<u32, Option<Study>>,
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
            .map(|device| {
                let study = studies.remove(&device.device).map_or_else(OnceLock::new, OnceLock::from);
                device_view(analysis, device, study, &is_left_out, envelope_columns)
            })
            .collect(),
        driver: analysis.driver.as_ref().map(driver::driver_view),
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
    study: OnceLock<Option<Study>>,
    is_left_out: &impl Fn(&str) -> bool,
    envelope_columns: usize,
) -> DeviceView<'a> {
    let views = || (at_peak(analysis, device), iteration_views(device, analysis.snapshot));
    let (findings, (at_peak, iterations)) = findings_beside(analysis, device, study, is_left_out, views);
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
fn unknown_because(
    analysis: &Analysis<'_>,
    device: &DeviceAnalysis<'_>,
    categories: &CategoriesView,
) -> Option<&'static str> {
    let all = categories.named().iter().map(|&(_, bytes)| bytes).fold(0, u64::saturating_add);
    if categories.unknown <= all / 20 {
        return None;
    }
    Some(if !device.has_history() {
        "no history was recorded, so only the stacks of blocks show their purpose, and blocks allocated before the \
         recording have none"
    } else if are_stacks_cut(analysis.snapshot, &analysis.sites) {
        "stacks were cut at a depth, and the outer frames that show the purpose of a block are missing"
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
        unknown_because: unknown_because(analysis, device, &categories),
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
