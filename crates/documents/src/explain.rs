//! `highwater-explain`: why memory ran out, and how to fix it.

use highwater_allocator::Memory;
use highwater_analysis::Analysis;
use highwater_analysis::device::DeviceAnalysis;
use highwater_analysis::phase::Phase;
use highwater_oom::{
    Answer, Cause, Diagnosis, Found, Group, Holder, Limit, Share, Situation, Step, Subject, answer, diagnosis,
};
use highwater_snapshot::EntryId;
use highwater_units::size;
use highwater_whatif::whole_step::WholeStep;
use highwater_whatif::{Gaps, Replayed};

use crate::log::{EngineView, ErrorView};
use crate::report::call_site_view;
use crate::serve::ServeAgainstView;
use crate::simulate::{frames_of_entry, place_of_entry};
use crate::{
    CallSiteView, CategoriesView, Document, Format, FrameView, PinningView, PlaceView, VerdictView, Version,
    WarningView,
};
use highwater_findings::explain::{Asked, Failure, failures, failures_elsewhere};

/// The whole document.
#[derive(Clone, Debug, Default, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ExplainView<'a> {
    pub(crate) format: Format<Self>,
    pub(crate) version: Version<Self>,
    /// The messages of a log, with equal ones together.
    pub messages: Vec<MessageView>,
    /// The number of all messages.
    pub message_count: u64,
    /// Different ones that are not listed, for there are too many.
    #[serde(skip_serializing_if = "is_zero")]
    pub messages_left_out: u64,
    /// The first of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<MessageView>,
    /// Failures of engines, libraries and the host in a log, with equal ones together.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<ErrorView>,
    /// The explained error; absent if PyTorch's message is explained.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorView>,
    /// What an engine that serves a model printed in the log while it started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub engine: Option<EngineView>,
    /// These numbers beside the forecast for this start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forecast: Option<ServeAgainstView>,
    /// Why there is no forecast beside an engine's numbers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_forecast: Option<String>,
    /// The cause of the first failure.
    pub diagnosis: DiagnosisView,
    /// The parts of the device's memory at the first failure.
    pub shares: Vec<ShareView>,
    /// Advice, the largest saving first.
    pub steps: Vec<StepView>,
    /// The failures of a snapshot.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<FailureExplainedView<'a>>,
    /// Where a message and a snapshot that are given together do not report the same failure.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub disagreements: Vec<String>,
    /// Warnings about the snapshot.
    pub warnings: Vec<WarningView>,
    /// The cause in half a sentence, of a failure that is no message of PyTorch, and of a message that a lack of memory did not cause.
    #[serde(skip)]
    pub headline: &'static str,
}

impl Document for ExplainView<'_> {
    const FORMAT: &'static str = "highwater-explain";
    const VERSION: u32 = 1;
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// Messages that say the same, of one process.
#[derive(Clone, Debug, Default, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MessageView {
    /// Their number.
    pub count: u64,
    /// The line of the first, from 1 on.
    pub line: u64,
    /// The process in the job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rank: Option<u32>,
    /// `CUDA`, `HIP`, `XPU`, `MPS`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backend: Option<&'static str>,
    /// The device's ordinal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<u32>,
    /// "Tried to allocate".
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tried_bytes: Option<u64>,
    /// "total capacity".
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity_bytes: Option<u64>,
    /// "is free".
    #[serde(skip_serializing_if = "Option::is_none")]
    pub free_bytes: Option<u64>,
    /// "this process has".
    #[serde(skip_serializing_if = "Option::is_none")]
    pub process_bytes: Option<u64>,
    /// "is allocated by PyTorch", "already allocated".
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocated_bytes: Option<u64>,
    /// "reserved in total", "cached".
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reserved_bytes: Option<u64>,
    /// "is reserved by PyTorch but unallocated".
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reserved_unallocated_bytes: Option<u64>,
    /// "allowed".
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit_bytes: Option<u64>,
    /// "allocated in private pools".
    #[serde(skip_serializing_if = "Option::is_none")]
    pub private_pools_bytes: Option<u64>,
    /// "expandable-segment reserve of".
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expandable_reserve_bytes: Option<u64>,
    /// MPS: "other allocations".
    #[serde(skip_serializing_if = "Option::is_none")]
    pub other_allocations_bytes: Option<u64>,
    /// "Process PID has".
    pub other_processes: Vec<ProcessView>,
    /// The releases that write such a message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub torch: Option<String>,
    /// The text ends before the message does.
    pub cut: bool,
    /// A word for the cause.
    pub cause: &'static str,
}

/// Another process on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProcessView {
    /// Its id.
    pub pid: u32,
    /// Its memory.
    pub bytes: u64,
}

/// Why.
#[derive(Clone, Debug, Default, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DiagnosisView {
    /// `too-big`, `fragmentation`, `other-process`, `leftover`, `outside-pytorch`, `limit`, `never-fits`,
    /// `private-pools`, `expandable-reserve`, `custom-allocator`, `refused`, `contradiction`, `unknown`; of engines
    /// `kv-cache`, `engine-share`; of a kernel `kernel-shared-memory`; of the host `host-memory`, `shared-memory`; or
    /// `fits` if nothing fails, `warning` if nothing has failed yet, `not-memory` if memory did not run out.
    pub cause: &'static str,
    /// Causes that contribute.
    pub also: Vec<&'static str>,
    /// The sentence.
    pub text: String,
    /// The memory limit of the process, if that is the cause; both numbers are equal if it is known exactly.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<LimitView>,
    /// The memory that the request lacked, as far as the numbers show.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missing_bytes: Option<u64>,
    /// Further notes.
    pub notes: Vec<String>,
}

/// A limit, or its lower and upper bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LimitView {
    /// The lower bound: this much was reserved.
    pub at_least_bytes: u64,
    /// The upper bound: this much was refused.
    pub at_most_bytes: u64,
}

/// A part of the device's memory.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ShareView {
    /// `allocated`, `unallocated`, `private-pools`, `outside-pytorch`, `process`, `others`, `untold` or `free`.
    pub holder: &'static str,
    /// The process, if it is another.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// The bytes.
    pub bytes: u64,
}

/// Something to change.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StepView {
    /// A stable word for its kind.
    pub id: &'static str,
    /// The advice.
    pub title: String,
    /// The numbers that it rests on.
    pub detail: String,
    /// The setting, code or command.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub change: Option<String>,
    /// The allocator settings, where these are all that is changed: to ask the simulator about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conf: Option<String>,
    /// The saving.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub brings_bytes: Option<u64>,
    /// Whether that alone would have let the request through.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enough: Option<bool>,
}

/// A failure of a snapshot.
#[derive(Clone, Debug, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FailureExplainedView<'a> {
    /// CUDA ordinal.
    pub device: u32,
    /// The entry; absent if the request came before the recording.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entry: Option<u32>,
    /// It did not fail in the recording, but would with so much memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub simulated_capacity_bytes: Option<u64>,
    /// The whole memory of the simulated GPU, if one was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub simulated_card_bytes: Option<u64>,
    /// The requested bytes, rounded.
    pub requested_bytes: u64,
    /// Bytes requested from the driver.
    pub tried_bytes: Option<u64>,
    /// Free memory that the driver reported.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub free_bytes: Option<u64>,
    /// In blocks that tensors own.
    pub allocated_bytes: Option<u64>,
    /// In segments.
    pub reserved_bytes: Option<u64>,
    /// In segments and in no active block.
    pub reserved_unallocated_bytes: Option<u64>,
    /// Why.
    pub diagnosis: DiagnosisView,
    /// The parts of the device's memory.
    pub shares: Vec<ShareView>,
    /// Advice, the largest saving first.
    pub steps: Vec<StepView>,
    /// Live memory by category, in the measure of its call sites.
    pub categories: CategoriesView,
    /// Live memory.
    pub call_sites: Vec<CallSiteView<'a>>,
    /// The memory of the whole step in which the request failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub whole_step: Option<WholeStepView>,
    /// Free memory in the allocator, by the reason why it could not be used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gaps: Option<GapsView>,
    /// The fewest live blocks without which the request would have been served.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pinning: Option<PinningView<'a>>,
    /// The simulator's verdict on other settings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub simulation: Option<VerdictView>,
    /// Where the request was made, in words.
    #[serde(flatten)]
    pub at: PlaceView<'a>,
    /// The stack of the request.
    pub frames: Vec<FrameView<'a>>,
}

/// What failed in a recording, and what to change: `None` where no request failed.
///
/// `replayed` gives what the simulator is asked about the first device on which something failed; without it, the
/// numbers alone tell, which takes no time.
pub fn explain<'a, 'r>(
    analysis: &Analysis<'a>,
    replayed: impl FnOnce(&DeviceAnalysis<'a>) -> Option<&'r Replayed>,
) -> Option<ExplainView<'a>> {
    let device = analysis.devices.iter().find(|device| !device.oom.is_empty())?;
    let mut all = failures(analysis, device, replayed(device), Asked::default());
    all.extend(failures_elsewhere(analysis, device.device));
    Some(ExplainView::of_failures(analysis, &all, &Found::default()))
}

/// The memory that an interrupted step needs in full.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WholeStepView {
    /// At its peak, allocated bytes (requested bytes where blocks' sizes are estimates).
    pub at_least_bytes: u64,
    /// Absent if it is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_most_bytes: Option<u64>,
    /// The evidence: `earlier-step`, `layers`, `phase` or `request`.
    pub basis: &'static str,
    /// The phase of the failure: `forward`, `backward` or `optimizer`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<&'static str>,
    /// Layers that were done, where a layer failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub layers_done: Option<usize>,
    /// The lowest and the highest possible number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub layers: Option<(usize, usize)>,
    /// The answer, as a sentence.
    pub text: String,
}

impl WholeStepView {
    pub(crate) fn new(whole: &WholeStep) -> Self {
        Self {
            at_least_bytes: whole.at_least_bytes,
            at_most_bytes: whole.at_most_bytes,
            basis: whole.basis.name(),
            phase: whole.phase.map(Phase::name),
            layers_done: whole.layers_done,
            layers: whole.layers,
            text: whole.text(),
        }
    }
}

/// Free memory of the allocator at a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GapsView {
    /// Free in segments that the request could have been served from.
    pub usable_bytes: u64,
    /// Such segments with something free.
    pub segments: usize,
    /// Pieces that this is in.
    pub pieces: usize,
    /// The largest piece.
    pub largest_bytes: u64,
    /// Free in segments of other streams or of the pool for small requests.
    pub elsewhere_bytes: u64,
    /// Free in private pools.
    pub private_bytes: u64,
}

impl ExplainView<'_> {
    /// The messages of a log; the first one is explained.
    pub fn of_log(found: &Found) -> Self {
        let situation = |group: &Group| Situation::of_group(group, found.surroundings);
        let messages: Vec<MessageView> =
            found.groups.iter().map(|group| MessageView::new(group, diagnosis(&situation(group)).cause)).collect();
        let mut view = Self {
            format: Format::default(),
            version: Version::default(),
            message: messages.first().cloned(),
            messages,
            message_count: found.count,
            messages_left_out: found.left_out,
            ..Self::default()
        };
        view.errors = found.events.iter().map(ErrorView::new).collect();
        view.engine = found.engine.as_ref().map(EngineView::new);
        if let Some(Answer { subject, situation, diagnosis, steps }) = answer(found) {
            let situation = situation.unwrap_or_default();
            if diagnosis.cause == Cause::NotMemory || diagnosis.cause == Cause::NeverFits && situation.has_wrong_size()
            {
                view.headline = Cause::NotMemory.in_short();
            }
            view.diagnosis = DiagnosisView::new(&diagnosis, &situation);
            view.shares = shares(&situation);
            view.steps = steps.into_iter().map(StepView::new).collect();
            if let Subject::Event(at) = subject {
                view.error = view.errors.get(at).cloned();
                view.headline = match diagnosis.cause {
                    // A log is no recording.
                    Cause::Unknown => "the text does not show the whole cause",
                    cause => cause.in_short(),
                };
            }
        }
        view
    }
}

impl<'a> ExplainView<'a> {
    /// The failures of a snapshot: the first one explained, then each of them.
    pub fn of_failures(analysis: &Analysis<'a>, failures: &[Failure], found: &Found) -> Self {
        let mut view = Self { ..Self::of_log(found) };
        view.failures = failures.iter().map(|failure| FailureExplainedView::new(analysis, failure)).collect();
        if let Some(first) = view.failures.first() {
            view.diagnosis = first.diagnosis.clone();
            view.shares = first.shares.clone();
            view.steps = first.steps.clone();
        }
        view.warnings = crate::warnings(analysis);
        view
    }

    /// That nothing fails with so much memory; `reason` is why that may not be so. A recording that ends at an error
    /// does not hold the whole run, so it proves of nothing that it fits.
    pub fn fits(&mut self, memory: Memory, ends_at_error: bool, reason: Option<String>) {
        let place = match memory {
            Memory::Card { total_bytes, .. } => format!("on a GPU with {}", size(total_bytes)),
            _ => format!("in {}", size(memory.capacity_bytes().unwrap_or(u64::MAX))),
        };
        let (cause, text) = if ends_at_error {
            let text = format!(
                "all recorded requests succeed {place}, with the program's own settings; but a request failed in \
                 the recording, which does not show how much more the program would have needed"
            );
            ("unknown", text)
        } else {
            ("fits", format!("nothing fails: the program fits {place}, with its own settings"))
        };
        self.diagnosis = DiagnosisView {
            cause,
            text,
            notes: reason.map(|reason| format!("this may be inaccurate: {reason}")).into_iter().collect(),
            ..DiagnosisView::default()
        };
        self.steps.clear();
    }
}

impl MessageView {
    fn new(group: &Group, cause: Cause) -> Self {
        let message = &group.message;
        let process = |process: &highwater_oom::Process| ProcessView { pid: process.pid, bytes: process.bytes };
        Self {
            count: group.count,
            line: group.line,
            rank: message.rank,
            backend: message.backend,
            device: message.device,
            tried_bytes: message.tried_bytes,
            capacity_bytes: message.capacity_bytes,
            free_bytes: message.free_bytes,
            process_bytes: message.process_bytes,
            allocated_bytes: message.allocated_bytes,
            reserved_bytes: message.reserved_bytes,
            reserved_unallocated_bytes: message.reserved_unallocated_bytes,
            limit_bytes: message.limit_bytes,
            private_pools_bytes: message.private_bytes,
            expandable_reserve_bytes: message.reserve_bytes,
            other_allocations_bytes: message.others_bytes,
            other_processes: message.other_processes.iter().map(process).collect(),
            torch: message.releases.map(|releases| releases.to_string()),
            cut: message.is_cut,
            cause: cause.name(),
        }
    }
}

impl DiagnosisView {
    fn new(diagnosis: &Diagnosis, situation: &Situation) -> Self {
        let view =
            |limit: Limit| LimitView { at_least_bytes: limit.at_least_bytes, at_most_bytes: limit.at_most_bytes };
        Self {
            cause: diagnosis.cause.name(),
            also: diagnosis.also.iter().map(|cause| cause.name()).collect(),
            text: diagnosis.text.clone(),
            limit: situation.limit.map(view),
            missing_bytes: situation.shortage_bytes().filter(|&bytes| bytes > 0),
            notes: diagnosis.notes.clone(),
        }
    }
}

impl StepView {
    fn new(step: Step) -> Self {
        let conf = step.change.as_deref().and_then(|change| change.strip_prefix("PYTORCH_CUDA_ALLOC_CONF="));
        Self {
            id: step.id,
            conf: conf.map(str::to_owned),
            title: step.title,
            detail: step.detail,
            change: step.change,
            brings_bytes: step.brings_bytes,
            enough: step.is_enough,
        }
    }
}

fn shares(situation: &Situation) -> Vec<ShareView> {
    let view = |share: Share| ShareView {
        holder: share.holder.name(),
        pid: if let Holder::Process(pid) = share.holder { Some(pid) } else { None },
        bytes: share.bytes,
    };
    situation.shares().into_iter().map(view).collect()
}

impl<'a> FailureExplainedView<'a> {
    fn new(analysis: &Analysis<'a>, failure: &Failure) -> Self {
        let situation = &failure.situation;
        let frames = failure.entry.map(|entry| frames_of_entry(analysis, failure.device, entry));
        Self {
            device: failure.device,
            entry: failure.entry.map(EntryId::get),
            simulated_capacity_bytes: failure.simulated_capacity_bytes,
            simulated_card_bytes: failure.situation.supposed.and_then(|memory| match memory {
                Memory::Card { total_bytes, .. } => Some(total_bytes),
                _ => None,
            }),
            requested_bytes: failure.requested_bytes,
            tried_bytes: situation.tried_bytes,
            free_bytes: situation.free_bytes,
            allocated_bytes: situation.allocated_bytes,
            reserved_bytes: situation.held_bytes,
            reserved_unallocated_bytes: situation.unallocated_bytes,
            diagnosis: DiagnosisView::new(&failure.diagnosis, situation),
            shares: shares(situation),
            steps: failure.steps.iter().cloned().map(StepView::new).collect(),
            categories: CategoriesView::new(failure.categories),
            call_sites: failure.live.iter().map(|total| call_site_view(analysis, total)).collect(),
            whole_step: failure.whole_step.as_ref().map(WholeStepView::new),
            gaps: failure.gaps.map(GapsView::new),
            pinning: failure.pinned.as_ref().map(|pinned| PinningView::new(analysis, pinned)),
            simulation: failure.verdict.as_ref().map(VerdictView::new),
            at: failure.entry.map(|entry| place_of_entry(analysis, failure.device, entry)).unwrap_or_default(),
            frames: frames.unwrap_or_default(),
        }
    }
}

impl GapsView {
    fn new(gaps: Gaps) -> Self {
        Self {
            usable_bytes: gaps.usable_bytes,
            segments: gaps.segments,
            pieces: gaps.pieces,
            largest_bytes: gaps.largest_bytes,
            elsewhere_bytes: gaps.elsewhere_bytes,
            private_bytes: gaps.private_bytes,
        }
    }
}
