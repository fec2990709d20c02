//! `highwater-simulate`: the recorded program with other settings.

use highwater_allocator::{Memory, TorchVersion};
use highwater_analysis::callsite::SiteTotal;
use highwater_analysis::{Analysis, DeviceAnalysis};
use highwater_snapshot::{EntryId, Snapshot, StackId};
use highwater_whatif::empty_cache::EmptyCache;
use highwater_whatif::fit::CardFit;
use highwater_whatif::largest::Largest;
use highwater_whatif::packing::Packing;
use highwater_whatif::pinned::Pinned;
use highwater_whatif::sites::SiteSaving;
use highwater_whatif::verdict::{Alarm, Verdict};
use highwater_whatif::waterfall::Bar;
use highwater_whatif::{Case, Fit, Outcome, Study};

use crate::verify::FidelityView;
use crate::{Document, Format, Version};
use crate::{FrameView, PlaceView, frames_from_site};

/// The whole document.
#[derive(Clone, Debug, Default, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SimulateView<'a> {
    pub(crate) format: Format<Self>,
    pub(crate) version: Version<Self>,
    /// CUDA ordinal.
    pub device: u32,
    /// The version whose rules apply.
    pub torch: RulesView,
    /// Requests of the program that is run again.
    pub requests: usize,
    /// How well the rules explain the recording.
    pub fidelity: FidelityView<'a>,
    /// Why the program may differ from the recorded one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub premise: Option<String>,
    /// Whether a request failed in the recording: the requests after it are unknown, so a run that serves all recorded
    /// requests does not prove that the program fits.
    pub ends_at_error: bool,
    /// The answer, if neither settings nor a capacity were given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verdict: Option<VerdictView>,
    /// Each of the settings with each of the capacities, in the order given.
    pub runs: Vec<RunView<'a>>,
    /// The lower bound for all settings.
    pub bound: BoundView,
    /// The least memory that is enough, if no capacity was given.
    pub fit: Vec<FitView>,
    /// Settings that make the program worse.
    pub alarms: Vec<AlarmView>,
    /// Where the peak of reserved memory goes; the bars add up to it.
    pub waterfall: Vec<BarView>,
    /// Call sites whose long-lived blocks fragment memory.
    pub sites: Vec<SiteView<'a>>,
    /// The cost of each `empty_cache()`.
    pub empty_caches: Vec<EmptyCacheView>,
    /// The largest block that could have been allocated, over time.
    pub largest_block: Vec<LargestView>,
    /// Reserved memory over time, if requested.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub timelines: Vec<TimelineView>,
}

impl Document for SimulateView<'_> {
    const FORMAT: &'static str = "highwater-simulate";
    const VERSION: u32 = 1;
}

/// Reserved bytes over the recording: a step function of its entries.
///
/// Of more than 4,000 steps the highest and the last of each of 2,000 stretches remain. A faithful run of the recorded
/// settings reserves the recorded bytes, at every entry.
#[derive(Clone, Debug, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TimelineView {
    /// The settings.
    pub conf: String,
    /// The memory that the allocator may reserve; null without a limit.
    pub capacity_bytes: Option<u64>,
    /// Entries, ascending from 0 on.
    pub entries: Vec<u32>,
    /// Reserved memory from each of them to the next.
    pub reserved_bytes: Vec<u64>,
    /// The entry of the first request that failed, which ends the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oom_entry: Option<u32>,
}

/// The version whose rules are used.
#[derive(Clone, Debug, Default, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RulesView {
    /// The version.
    pub version: String,
    /// The version whose rules explain the recording, which gives the program.
    pub replayed: String,
    /// How it was chosen: `flag`, `file` (by its keys) or `replay`.
    pub chosen_by: &'static str,
}

/// One run.
#[derive(Clone, Debug, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RunView<'a> {
    /// The settings.
    pub conf: String,
    /// The memory that the allocator may reserve; null without a limit.
    pub capacity_bytes: Option<u64>,
    /// The GPU, if one was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub card: Option<String>,
    /// The total memory of that GPU. The CUDA context takes the difference to `capacity_bytes`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub card_total_bytes: Option<u64>,
    /// `fits`, where every recorded request is served, or `oom`.
    #[cfg_attr(feature = "schema", schemars(extend("enum" = ["fits", "oom"])))]
    pub outcome: &'static str,
    /// The entry of the first request that failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oom_entry: Option<u32>,
    /// The peak of allocated bytes.
    pub peak_allocated_bytes: u64,
    /// The largest amount held from the driver.
    pub peak_reserved_bytes: u64,
    /// The lowest and highest peak of allocated bytes over several orders of addresses.
    pub peak_allocated_range_bytes: (u64, u64),
    /// The lowest and highest amount held from the driver over the same orders.
    pub peak_reserved_range_bytes: (u64, u64),
    /// Second attempts.
    pub num_alloc_retries: u64,
    /// Requests that failed.
    pub num_ooms: u64,
    /// `exact`, `address-sensitive` or `premise-broken`.
    #[cfg_attr(feature = "schema", schemars(extend("enum" = ["exact", "address-sensitive", "premise-broken"])))]
    pub confidence: &'static str,
    /// Why not exact.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oom: Option<FailureView<'a>>,
}

/// A request that failed in a run.
#[derive(Clone, Debug, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FailureView<'a> {
    /// Requested.
    pub requested_bytes: u64,
    /// Bytes requested from the driver.
    pub segment_bytes: u64,
    /// In use at that moment.
    pub allocated_bytes: u64,
    /// Held at that moment.
    pub reserved_bytes: u64,
    /// The message that PyTorch would have printed.
    pub message: Option<String>,
    /// The fewest live blocks without which it would have been served; absent if none would have helped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pinning: Option<PinningView<'a>>,
    /// Where the request was made, in words.
    #[serde(flatten)]
    pub at: PlaceView<'a>,
    /// The stack of the request.
    pub frames: Vec<FrameView<'a>>,
}

/// The fewest live blocks that stood in the way of a request.
#[derive(Clone, Debug, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PinningView<'a> {
    /// Their number.
    pub count: usize,
    /// Their bytes.
    pub bytes: u64,
    /// Whether the request would have taken their place; else memory would have gone back to the driver.
    pub in_place: bool,
    /// Whether fewer are certainly not enough.
    pub is_smallest: bool,
    /// By call site, the largest first.
    pub call_sites: Vec<PinningSiteView<'a>>,
}

/// A call site of such blocks.
#[derive(Clone, Debug, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PinningSiteView<'a> {
    /// Requested bytes.
    pub requested_bytes: u64,
    /// The number of blocks.
    pub count: u64,
    /// The site in words, and whose it is.
    #[serde(flatten)]
    pub at: PlaceView<'a>,
    /// The stack, the site first.
    pub frames: Vec<FrameView<'a>>,
}

/// Bounds on any allocator.
#[derive(Clone, Copy, Debug, Default, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BoundView {
    /// The peak of live memory, each request rounded up to 512 bytes.
    pub live_bytes: u64,
    /// Where.
    pub live_entry: Option<u32>,
    /// Bytes that a placement with knowledge of the future needs.
    pub packed_bytes: u64,
    /// Whether the two meet.
    pub proven_optimal: bool,
}

/// How little memory is enough under some settings.
#[derive(Clone, Debug, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FitView {
    /// The settings.
    pub conf: String,
    /// The smallest capacity from which on no request fails; above 2 TiB an upper bound.
    pub min_capacity_bytes: u64,
    /// The same for the least favourable order of addresses.
    pub min_capacity_any_order_bytes: u64,
    /// Beyond the live memory.
    pub over_live_ratio: f64,
    /// Second attempts at the smallest capacity.
    pub num_alloc_retries: u64,
    /// Reserved memory without a limit.
    pub ample_reserved_bytes: u64,
    /// Whether it fits each size of card; none where the recording ends at an error, which proves of no card that the
    /// program fits.
    pub cards: Vec<CardView>,
}

/// Whether a GPU is enough.
#[derive(Clone, Copy, Debug, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CardView {
    /// The nominal gigabytes.
    pub gigabytes: u32,
    /// The GPU of that size with the least memory, by its driver's name.
    pub name: &'static str,
    /// Its common name, such as `RTX 4060`.
    pub short_name: &'static str,
    /// Its memory.
    pub total_bytes: u64,
    /// Whether no request fails.
    pub fits: bool,
    /// Second attempts.
    pub num_alloc_retries: u64,
}

/// The answer.
#[derive(Clone, Debug, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct VerdictView {
    /// `impossible`, `saved`, `not-saved`, `better` or `optimal`.
    #[cfg_attr(feature = "schema", schemars(extend("enum" = ["impossible", "saved", "not-saved", "better", "optimal"])))]
    pub kind: &'static str,
    /// The sentence.
    pub text: String,
    /// The settings that it recommends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conf: Option<String>,
    /// The memory that the answer is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity_bytes: Option<u64>,
    /// Bytes of it that stay free.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spare_bytes: Option<u64>,
    /// The peak of live memory.
    pub live_bytes: u64,
    /// Where.
    pub live_entry: Option<u32>,
}

/// A setting that makes the program worse.
#[derive(Clone, Debug, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AlarmView {
    /// The settings.
    pub conf: String,
    /// The peak under the recording's own settings.
    pub own_reserved_bytes: u64,
    /// The peak under these.
    pub reserved_bytes: u64,
}

/// One bar of the waterfall.
#[derive(Clone, Copy, Debug, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BarView {
    /// The cause.
    pub cause: &'static str,
    /// The reduction of the peak without it.
    pub bytes: i64,
}

/// A call site whose long-lived blocks fragment memory.
#[derive(Clone, Debug, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SiteView<'a> {
    /// Its long-lived blocks.
    pub count: usize,
    /// Their requested bytes.
    pub requested_bytes: u64,
    /// The reduction of the peak if they are allocated before anything else.
    pub hoisted_saves_bytes: i64,
    /// The reduction of the peak if they come from a pool of their own.
    pub pooled_saves_bytes: i64,
    /// The site in words, and whose it is.
    #[serde(flatten)]
    pub at: PlaceView<'a>,
    /// The stack, the site first.
    pub frames: Vec<FrameView<'a>>,
}

/// The cost of an `empty_cache()`.
#[derive(Clone, Copy, Debug, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EmptyCacheView {
    /// The first entry that it caused; null for all calls together.
    pub entry: Option<u32>,
    /// The number of calls.
    pub calls: usize,
    /// Calls to the driver that it caused.
    pub device_allocs: i64,
    /// The increase of the peak without the call.
    pub saved_bytes: i64,
}

/// The largest block that could have been allocated.
#[derive(Clone, Copy, Debug, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LargestView {
    /// The entry.
    pub entry: Option<u32>,
    /// From the cache.
    pub cached_bytes: u64,
    /// The total; null without a limit.
    pub allocatable_bytes: Option<u64>,
}

impl<'a> SimulateView<'a> {
    /// A document without runs, of a device of the snapshot.
    pub fn new(
        snapshot: &'a Snapshot,
        device: &DeviceAnalysis<'a>,
        study: &Study,
        replayed: TorchVersion,
        chosen_by: &'static str,
    ) -> Self {
        Self {
            format: Format::default(),
            version: Version::default(),
            device: study.device,
            torch: RulesView { version: study.torch.to_string(), replayed: replayed.to_string(), chosen_by },
            requests: study.program.requests(),
            fidelity: FidelityView::new(snapshot, device, &study.fidelity),
            premise: study.premise.clone(),
            ends_at_error: !device.oom.is_empty(),
            bound: BoundView::new(study, None),
            ..Self::default()
        }
    }
}

impl<'a> RunView<'a> {
    /// A run of some settings in some memory.
    pub fn new(
        analysis: &Analysis<'a>,
        study: &Study,
        conf: &str,
        memory: Memory,
        card: Option<&str>,
        case: &Case,
        pinned: Option<&Pinned>,
    ) -> Self {
        let run = &case.run;
        let (oom_entry, oom) = match &run.outcome {
            Outcome::Fits => (None, None),
            Outcome::Undefined { entry, .. } => (entry.map(EntryId::get), None),
            Outcome::OutOfMemory { entry, failure } => {
                let failure = FailureView {
                    requested_bytes: failure.requested_bytes,
                    segment_bytes: failure.segment_bytes,
                    allocated_bytes: failure.allocated_bytes,
                    reserved_bytes: failure.reserved_bytes,
                    message: run.message.clone(),
                    pinning: pinned.map(|pinned| PinningView::new(analysis, pinned)),
                    at: entry.map(|entry| place_of_entry(analysis, study.device, entry)).unwrap_or_default(),
                    frames: entry.map(|entry| frames_of_entry(analysis, study.device, entry)).unwrap_or_default(),
                };
                (entry.map(EntryId::get), Some(failure))
            }
        };
        Self {
            conf: conf.to_owned(),
            capacity_bytes: memory.capacity_bytes(),
            card: card.map(str::to_owned),
            card_total_bytes: match memory {
                Memory::Card { total_bytes, .. } if card.is_some() => Some(total_bytes),
                Memory::Card { .. } | Memory::Limit(_) | Memory::Ample => None,
            },
            outcome: if run.outcome.fits() { "fits" } else { "oom" },
            oom_entry,
            peak_allocated_bytes: run.peak_allocated_bytes(),
            peak_reserved_bytes: run.peak_reserved_bytes(),
            peak_allocated_range_bytes: case.allocated_range,
            peak_reserved_range_bytes: case.reserved_range,
            num_alloc_retries: run.statistics.num_alloc_retries,
            num_ooms: run.statistics.num_ooms,
            confidence: case.confidence.name(),
            reason: case.reason.clone(),
            oom,
        }
    }
}

/// The stack of an entry, its call site first.
pub(super) fn frames_of_entry<'a>(analysis: &Analysis<'a>, device: u32, entry: EntryId) -> Vec<FrameView<'a>> {
    let stack = stack_of_entry(analysis, device, entry);
    frames_from_site(analysis, analysis.sites.site(stack), stack)
}

/// Where an entry's stack comes from.
pub(super) fn place_of_entry<'a>(analysis: &Analysis<'a>, device: u32, entry: EntryId) -> PlaceView<'a> {
    let stack = stack_of_entry(analysis, device, entry);
    PlaceView::new(analysis, analysis.sites.site(stack), stack)
}

fn stack_of_entry(analysis: &Analysis<'_>, device: u32, entry: EntryId) -> StackId {
    let entries = analysis.device(device).map(|device| device.entries);
    entries.map_or(StackId::MISSING, |entries| entries.stacks()[entry.index()])
}

impl<'a> PinningView<'a> {
    pub(super) fn new(analysis: &Analysis<'a>, pinned: &Pinned) -> Self {
        let site = |total: &SiteTotal| PinningSiteView {
            requested_bytes: total.bytes,
            count: total.count,
            at: PlaceView::new(analysis, total.site, total.stack),
            frames: frames_from_site(analysis, total.site, total.stack),
        };
        Self {
            count: pinned.blocks,
            bytes: pinned.bytes,
            in_place: pinned.in_place,
            is_smallest: pinned.is_smallest,
            call_sites: pinned.sites.iter().map(site).collect(),
        }
    }
}

impl BoundView {
    /// The lower bound for all settings, with the memory that a placement needs.
    pub fn new(study: &Study, packing: Option<&Packing>) -> Self {
        let packed_bytes = packing.map_or(0, |packing| packing.packed_bytes);
        Self {
            live_bytes: study.live.bytes,
            live_entry: study.live.entry.map(EntryId::get),
            packed_bytes,
            proven_optimal: packed_bytes == study.live.bytes,
        }
    }
}

impl FitView {
    /// A row of the fit table.
    #[expect(clippy::cast_precision_loss, reason = "a ratio")]
    pub fn new(study: &Study, fit: &Fit) -> Self {
        Self {
            conf: fit.conf.clone(),
            min_capacity_bytes: fit.min_capacity_bytes,
            min_capacity_any_order_bytes: fit.min_capacity_any_order_bytes,
            over_live_ratio: fit.min_capacity_bytes as f64 / study.live.bytes.max(1) as f64,
            num_alloc_retries: fit.num_alloc_retries,
            ample_reserved_bytes: fit.ample_reserved_bytes,
            cards: fit.cards.iter().map(CardView::new).collect(),
        }
    }
}

impl CardView {
    fn new(fit: &CardFit) -> Self {
        Self {
            gigabytes: fit.card.gigabytes,
            name: fit.card.name,
            short_name: fit.card.short_name(),
            total_bytes: fit.card.memory_bytes,
            fits: fit.fits,
            num_alloc_retries: fit.num_alloc_retries,
        }
    }
}

impl VerdictView {
    /// The answer.
    pub fn new(verdict: &Verdict) -> Self {
        Self {
            kind: verdict.kind.name(),
            text: verdict.text.clone(),
            conf: verdict.conf.clone(),
            capacity_bytes: verdict.capacity_bytes,
            spare_bytes: verdict.spare_bytes,
            live_bytes: verdict.live_bytes,
            live_entry: verdict.entry.map(EntryId::get),
        }
    }
}

impl AlarmView {
    /// A warning of a setting.
    pub fn new(alarm: &Alarm) -> Self {
        Self {
            conf: alarm.conf.clone(),
            own_reserved_bytes: alarm.own_reserved_bytes,
            reserved_bytes: alarm.reserved_bytes,
        }
    }
}

impl BarView {
    /// A bar.
    pub fn new(bar: &Bar) -> Self {
        Self { cause: bar.cause.name(), bytes: bar.bytes }
    }
}

impl<'a> SiteView<'a> {
    /// A call site.
    pub fn new(analysis: &Analysis<'a>, saving: &SiteSaving) -> Self {
        Self {
            count: saving.blocks,
            requested_bytes: saving.bytes,
            hoisted_saves_bytes: saving.hoisted_saves_bytes,
            pooled_saves_bytes: saving.pooled_saves_bytes,
            at: PlaceView::new(analysis, saving.site, saving.stack),
            frames: frames_from_site(analysis, saving.site, saving.stack),
        }
    }
}

impl EmptyCacheView {
    /// A call.
    pub fn new(call: &EmptyCache) -> Self {
        Self {
            entry: call.entry.map(EntryId::get),
            calls: call.calls,
            device_allocs: call.device_allocs,
            saved_bytes: call.saved_bytes,
        }
    }
}

impl LargestView {
    /// A moment.
    pub fn new(largest: &Largest) -> Self {
        Self {
            entry: largest.entry.map(EntryId::get),
            cached_bytes: largest.cached_bytes,
            allocatable_bytes: largest.allocatable_bytes,
        }
    }
}
