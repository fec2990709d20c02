//! Why a recorded request failed: one function, for the report and for `explain`.

use highwater_allocator::TorchVersion;
use highwater_analysis::Analysis;
use highwater_analysis::device::DeviceAnalysis;
use highwater_analysis::oom::{self, OutOfMemory};
use highwater_analysis::recorded_settings::recorded_settings;
use highwater_oom::{Diagnosis, Limit, Message, Situation, StepNeed, Surroundings, diagnosis};
use highwater_snapshot::PoolId;
use highwater_whatif::whole_step::{WholeStep, whole_step};
use highwater_whatif::{Gaps, Replayed, is_asynchronous};

use super::outside::Outside;

/// Why a recorded request failed.
#[derive(Clone, Debug)]
pub struct Why {
    /// The cause.
    pub diagnosis: Diagnosis,
    /// What the step needs in which the request failed; of the first failure of a device.
    pub whole_step: Option<WholeStep>,
}

/// Why a request of a recording failed, by the recording alone.
///
/// Only what private pools keep is asked of a replay, and only where there are any.
pub fn why(analysis: &Analysis<'_>, device: &DeviceAnalysis<'_>, event: &OutOfMemory) -> Why {
    let is_first = device.oom.first().is_some_and(|first| first.entry == event.entry);
    let whole_step = is_first.then(|| whole_step(analysis, device, event));
    let mut situation = situation(analysis, device, event, whole_step.as_ref(), None);
    let outside = if is_first { Outside::at(analysis, device, event) } else { None };
    if let Some(outside) = &outside {
        outside.tell(&mut situation);
    }
    if is_first && has_private_pools(device) && !is_asynchronous(analysis.snapshot) {
        let study = Replayed::new(analysis.snapshot, device, None).study;
        let memory = study.memory_at_failure(device);
        let gaps = memory.and_then(|memory| study.gaps(&study.recorded, memory));
        tell_private_pools(&mut situation, gaps.as_ref());
    }
    Why { diagnosis: diagnosis(&situation), whole_step }
}

/// The numbers of a recorded failure, with what only its message says.
pub(super) fn situation(
    analysis: &Analysis<'_>,
    device: &DeviceAnalysis<'_>,
    event: &OutOfMemory,
    whole_step: Option<&WholeStep>,
    message: Option<&Message>,
) -> Situation {
    let totals = event.totals;
    let of_message = message.map(|message| Situation::of_message(message, Surroundings::default()));
    let limit = (event.cause == oom::Cause::Limit).then(|| {
        let (at_least_bytes, at_most_bytes) = event.limit_bytes(device.timeline.reserved_peak().bytes);
        Limit { at_least_bytes, at_most_bytes }
    });
    let told = of_message.unwrap_or_default();
    // A program that went on after the error shows what it needed then.
    let needs_bytes =
        totals.requested_bytes.saturating_add(event.requested_bytes).max(device.timeline.requested_peak().bytes);
    Situation {
        device: Some(device.device),
        is_printed: false,
        requested_bytes: Some(event.requested_bytes),
        tried_bytes: Some(event.segment_bytes),
        free_bytes: event.device_free_bytes.or(told.free_bytes),
        allocated_bytes: Some(totals.allocated_bytes),
        held_bytes: Some(totals.reserved_bytes),
        unallocated_bytes: Some(event.unused_bytes()),
        limit: told.limit.or(limit),
        has_expandable_segments: told.has_expandable_segments
            || recorded_settings(analysis.snapshot, TorchVersion::NEWEST).expandable_segments,
        knows_expandable_segments: true,
        needs_bytes: Some(needs_bytes),
        whole_step: whole_step
            .map(|whole| StepNeed { at_least_bytes: whole.at_least_bytes, at_most_bytes: whole.at_most_bytes }),
        ..told
    }
}

/// Tells free memory of private pools from that of the rest.
pub(super) fn tell_private_pools(situation: &mut Situation, gaps: Option<&Gaps>) {
    if let (Some(gaps), Some(unallocated)) = (gaps, situation.unallocated_bytes) {
        situation.private_bytes = gaps.private_bytes.min(unallocated);
        situation.unallocated_bytes = Some(unallocated - situation.private_bytes);
    }
}

fn has_private_pools(device: &DeviceAnalysis<'_>) -> bool {
    let pools = device.entries.pools();
    match pools.constant() {
        Some(pool) => pool != PoolId::DEFAULT,
        None => (0..device.entries.len()).any(|row| pools.get(row) != PoolId::DEFAULT),
    }
}
