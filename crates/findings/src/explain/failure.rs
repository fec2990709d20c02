//! The failures of a snapshot, recorded or simulated, explained.

use highwater_allocator::Memory;
use highwater_analysis::Analysis;
use highwater_analysis::callsite::SiteTotal;
use highwater_analysis::category::Category;
use highwater_analysis::device::DeviceAnalysis;
use highwater_analysis::growth::Growth;
use highwater_analysis::oom::OutOfMemory;
use highwater_analysis::place::place;
use highwater_oom::{Cause, Diagnosis, Message, Situation, Step, diagnosis, sort, steps};
use highwater_snapshot::EntryId;
use highwater_units::{counted, size};
use highwater_whatif::pinned::Pinned;
use highwater_whatif::verdict::{Kind, Verdict, named};
use highwater_whatif::whole_step::{WholeStep, whole_step};
use highwater_whatif::{Fit, Gaps, Outcome, Replayed, Study};

use super::cause::{situation, tell_private_pools};
use super::disagreement::best;
use super::live::Live;
use super::outside::Outside;
use crate::rules::findings_but;

/// Failures of a device that are explained; a program that retries may have thousands.
const MAX_FAILURES: usize = 100;

/// What is asked of a snapshot.
#[derive(Clone, Copy, Debug, Default)]
pub struct Asked<'m> {
    /// Explain what fails with so much memory, rather than what failed.
    pub memory: Option<Memory>,
    /// The message of the failure, for what the snapshot does not say.
    pub message: Option<&'m Message>,
}

/// A request that failed.
#[derive(Clone, Debug)]
pub struct Failure {
    /// CUDA ordinal.
    pub device: u32,
    /// The entry of the request; `None` if it came before the recording.
    pub entry: Option<EntryId>,
    /// It did not fail in the recording, but would if the allocator could have so much.
    pub simulated_capacity_bytes: Option<u64>,
    /// The request, rounded.
    pub requested_bytes: u64,
    /// The numbers.
    pub situation: Situation,
    /// What the step needs in which the request failed; of the recorded failure that is told of, or the first.
    pub whole_step: Option<WholeStep>,
    /// The cause.
    pub diagnosis: Diagnosis,
    /// Advice, the largest saving first.
    pub steps: Vec<Step>,
    /// What was live, by call site, the largest first.
    pub live: Vec<SiteTotal>,
    /// The same bytes by category, in the order of [`Category::ALL`].
    pub categories: [u64; Category::ALL.len()],
    /// What the simulator says of other settings, for the first failure of a device.
    pub verdict: Option<Verdict>,
    /// The fewest blocks that stood in the way.
    pub pinned: Option<Pinned>,
    /// What was free in the allocator.
    pub gaps: Option<Gaps>,
}

/// The failures of a device, in order; with a capacity, the one of the simulated run, if there is one.
///
/// `replayed` is what the simulator is asked; without one (a file has no trace, or the driver's own allocator was used) the
/// numbers alone tell.
pub fn failures(
    analysis: &Analysis<'_>,
    device: &DeviceAnalysis<'_>,
    replayed: Option<&Replayed>,
    asked: Asked<'_>,
) -> Vec<Failure> {
    let context = Context { analysis, device, study: replayed.map(|replayed| &replayed.study), message: asked.message };
    if let Some(memory) = asked.memory {
        return context.simulated(memory).into_iter().collect();
    }
    let first = asked.message.and_then(|message| best(message, device)).or(device.oom.first()).map(|event| event.entry);
    let events = device.oom.iter().take(MAX_FAILURES);
    events.map(|event| context.recorded(event, first == Some(event.entry))).collect()
}

/// The failures of all devices but one, by their numbers alone.
pub fn failures_elsewhere(analysis: &Analysis<'_>, but: u32) -> Vec<Failure> {
    let others = analysis.devices.iter().filter(|device| device.device != but);
    others.flat_map(|device| failures(analysis, device, None, Asked::default())).collect()
}

struct Context<'b, 'a> {
    analysis: &'b Analysis<'a>,
    device: &'b DeviceAnalysis<'a>,
    study: Option<&'b Study>,
    message: Option<&'b Message>,
}

impl Context<'_, '_> {
    /// A failure of the recording; `is_told` is the one that the message tells of, or else the first.
    fn recorded(&self, event: &OutOfMemory, is_told: bool) -> Failure {
        let is_first = self.device.oom.first().is_some_and(|first| first.entry == event.entry);
        // Of one failure: a program that retries may have thousands.
        let whole_step = (is_told || is_first).then(|| whole_step(self.analysis, self.device, event));
        let message = self.message.filter(|_| is_told);
        let mut situation = situation(self.analysis, self.device, event, whole_step.as_ref(), message);
        let outside = if is_told || is_first { Outside::at(self.analysis, self.device, event) } else { None };
        if let Some(outside) = &outside {
            outside.tell(&mut situation);
        }
        let study = self.study.filter(|_| is_first);
        let limit = situation.limit.filter(|limit| limit.is_known()).map(|limit| limit.at_most_bytes);
        let memory = study.and_then(|study| limit.map(Memory::Limit).or_else(|| study.memory_at_failure(self.device)));
        let table = study.map(fit_table);
        let verdict = study.zip(table.as_ref()).map(|(study, table)| match limit {
            Some(limit) => study.verdict_within(limit, table),
            None => study.verdict(self.device, table),
        });
        let proof = study.zip(memory).map(|(study, memory)| Proof::new(study, memory, self)).unwrap_or_default();
        tell_private_pools(&mut situation, proof.gaps.as_ref());
        let mut failure = self.explained(situation, whole_step, event.requested_bytes, Some(event.entry), proof);
        failure.add_verdict(verdict, table.as_deref(), true);
        if let Some(outside) = &outside {
            failure.diagnosis.notes.extend(outside.note());
            outside.advise(&mut failure.steps);
        }
        failure
    }

    /// What fails with so much memory; `None` if nothing does, or nothing can be run.
    fn simulated(&self, memory: Memory) -> Option<Failure> {
        let study = self.study?;
        let capacity_bytes = memory.capacity_bytes()?;
        let case = study.case(&study.recorded, memory);
        let Outcome::OutOfMemory { entry, failure } = case.run.outcome else { return None };
        let proof = Proof::new(study, memory, self);
        let mut situation = Situation {
            has_expandable_segments: study.recorded.expandable_segments,
            needs_bytes: Some(study.live.bytes),
            ..Situation::of_run(self.device.device, memory, &failure)
        };
        tell_private_pools(&mut situation, proof.gaps.as_ref());
        let before = entry.and_then(|entry| entry.index().checked_sub(1)).map(EntryId::from_index);
        let mut explained = self.explained(situation, None, failure.requested_bytes, before, proof);
        explained.entry = entry;
        explained.simulated_capacity_bytes = Some(capacity_bytes);
        explained.diagnosis.notes.extend(case.reason.map(|reason| format!("this may be inaccurate: {reason}")));
        let table = fit_table(study);
        let ends_at_error = !self.device.oom.is_empty();
        explained.add_verdict(Some(study.verdict_supposing(capacity_bytes, &table)), Some(&table), ends_at_error);
        Some(explained)
    }

    fn explained(
        &self,
        situation: Situation,
        whole_step: Option<WholeStep>,
        requested_bytes: u64,
        live_after: Option<EntryId>,
        proof: Proof,
    ) -> Failure {
        let mut diagnosis = diagnosis(&situation);
        diagnosis.notes.extend(whole_step.as_ref().map(WholeStep::text));
        let mut steps = steps(&situation, &diagnosis);
        let live = Live::new(self.device, live_after, self.analysis.snapshot);
        if let Some(shrink) = steps.iter_mut().find(|step| step.id == "shrink") {
            live.advise(shrink, &situation);
        }
        if diagnosis.cause != Cause::NeverFits {
            let shrink = steps.iter().position(|step| step.id == "shrink").unwrap_or(steps.len());
            steps.splice(shrink..shrink, self.findings());
            let shrink = steps.iter().position(|step| step.id == "shrink").unwrap_or(steps.len());
            sort(&mut steps[..shrink]);
        }
        if let Some(growth) = growth(self.analysis, &self.device.growth) {
            let shrink = steps.iter().position(|step| step.id == "shrink").unwrap_or(steps.len());
            steps.insert(shrink, growth);
        }
        Failure {
            whole_step,
            device: self.device.device,
            entry: live_after,
            simulated_capacity_bytes: None,
            requested_bytes,
            diagnosis,
            steps,
            live: self.device.counted_by_site(live_after, self.analysis.snapshot, &self.analysis.sites),
            categories: live.categories,
            verdict: None,
            pinned: proof.pinned,
            gaps: proof.gaps,
            situation,
        }
    }

    /// What the recording itself shows could be less, with what that brings at its peak.
    fn findings(&self) -> Vec<Step> {
        /// Findings that are told.
        const MOST: usize = 5;
        // Settings have a step by what fits, growth one of its own.
        let findings =
            findings_but(self.analysis, self.device, |id| matches!(id, "allocator-settings" | "growth" | "batch-size"));
        let mut steps: Vec<Step> = findings
            .into_iter()
            .filter_map(|finding| {
                let (change, saving) = (finding.change?, finding.saving_bytes?);
                let detail = format!("{}: {}", finding.title, finding.detail);
                Some(Step { brings_bytes: Some(saving), ..Step::new(finding.id, change, detail) })
            })
            .collect();
        sort(&mut steps);
        steps.truncate(MOST);
        steps
    }
}

/// What a run up to the failure shows.
#[derive(Debug, Default)]
struct Proof {
    pinned: Option<Pinned>,
    gaps: Option<Gaps>,
}

impl Proof {
    fn new(study: &Study, memory: Memory, context: &Context<'_, '_>) -> Self {
        let settings = &study.recorded;
        Self {
            pinned: study.pinned(settings, memory, context.device, &context.analysis.sites),
            gaps: study.gaps(settings, memory),
        }
    }
}

fn fit_table(study: &Study) -> Vec<Fit> {
    study.fit_table(&study.candidates())
}

impl Failure {
    /// What the simulator says counts more than what the numbers suggest.
    fn add_verdict(&mut self, verdict: Option<Verdict>, table: Option<&[Fit]>, ends_at_error: bool) {
        let (Some(verdict), Some(table)) = (verdict, table) else { return };
        self.steps.retain(|step| step.id != "expandable-segments");
        if verdict.kind == Kind::Saved
            && let (Some(conf), Some(capacity), Some(spare)) =
                (&verdict.conf, verdict.capacity_bytes, verdict.spare_bytes)
            && let Some(own) = table.first().filter(|own| own.conf != *conf)
        {
            let needs = capacity.saturating_sub(spare);
            // A recording that ends at an error does not prove that anything fits.
            let whole = self.situation.whole_step.as_ref();
            let title = match (whole, self.simulated_capacity_bytes) {
                (_, Some(_)) if !ends_at_error => {
                    format!("run with {}: it fits, with {} to spare", named(conf), size(spare))
                }
                (_, Some(_)) => format!(
                    "run with {}: all recorded requests succeed, with {} to spare; the recording ends at an error",
                    named(conf),
                    size(spare)
                ),
                (Some(whole), None) => format!(
                    "run with {}: the failed request succeeds, with {} to spare; the whole step needs {}",
                    named(conf),
                    size(spare),
                    whole.amount()
                ),
                (None, None) => {
                    format!("run with {}: the failed request succeeds, with {} to spare", named(conf), size(spare))
                }
            };
            let is_enough = match whole.map(|whole| (whole.at_least_bytes, whole.at_most_bytes)) {
                None => (!ends_at_error).then_some(true),
                Some((least, _)) if least > capacity => Some(false),
                Some((_, most)) => most.is_some_and(|most| most <= capacity).then_some(true),
            };
            let step = Step {
                id: "settings",
                title,
                detail: format!(
                    "in a replay of this recording, {} of the available {} is enough; its own settings need {}",
                    size(needs),
                    size(capacity),
                    size(own.min_capacity_any_order_bytes)
                ),
                change: Some(format!("PYTORCH_CUDA_ALLOC_CONF={conf}")),
                brings_bytes: Some(own.min_capacity_any_order_bytes.saturating_sub(needs)),
                is_enough,
            };
            let steps = self.steps.iter().position(|step| step.id == "growth" || step.id == "shrink");
            self.steps.insert(steps.unwrap_or(self.steps.len()), step);
            let last = self.steps.iter().position(|step| step.id == "growth" || step.id == "shrink");
            sort(&mut self.steps[..last.unwrap_or(0)]);
        }
        self.verdict = Some(verdict);
    }
}

/// What grows, where something does.
fn growth(analysis: &Analysis<'_>, growing: &[Growth]) -> Option<Step> {
    let first = growing.first()?;
    let bytes = growing.iter().map(|growth| growth.bytes).fold(0, u64::saturating_add);
    let places = counted(growing.len(), "line keeps", "lines keep");
    let step = Step::new(
        "growth",
        format!("free the memory that {places} alive after every iteration"),
        format!("{} has accumulated so far, most of it at {}", size(bytes), place(analysis, first.site)),
    );
    Some(step.brings(bytes, None))
}
