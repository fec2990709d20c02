//! The tables of `torch.cuda.memory_summary`: beside a message, and alone.

use highwater_units::{counted, percent, size};

use super::{Answer, Subject, because};
use crate::diagnosis::{Cause, WORTH_A_WORD_BYTES};
use crate::log::{Found, MemorySummary};
use crate::situation::Situation;
use crate::steps::{Step, record_a_snapshot, steps};

/// Reserved memory without a tensor is worth a word from this share on: a tenth.
const WORTH_A_WORD: u64 = 10;

/// The table of the device of a message: after its failure if there is one.
fn of_device(device: Option<u32>, found: &Found) -> Option<&MemorySummary> {
    let mut fitting: Vec<_> =
        found.summaries.iter().filter(|summary| device.is_none() || summary.device == device).collect();
    fitting.sort_by_key(|summary| summary.ooms == 0);
    fitting.into_iter().next()
}

/// Fills in totals that a message lacks, for it is cut.
pub(super) fn complete(situation: &mut Situation, found: &Found) {
    let Some(summary) = of_device(situation.device, found).filter(|_| situation.held_bytes.is_none()) else { return };
    if let (Some((allocated, _)), Some((reserved, _))) = (summary.allocated(), summary.reserved()) {
        situation.allocated_bytes = Some(allocated);
        situation.held_bytes = Some(reserved);
        situation.unallocated_bytes = Some(reserved.saturating_sub(allocated));
    }
}

/// What a table adds to a message.
pub(super) fn note(device: Option<u32>, found: &Found) -> Option<String> {
    totals(of_device(device, found)?)
}

fn totals(summary: &MemorySummary) -> Option<String> {
    let mut parts = Vec::new();
    let rows = [
        ("allocated", summary.allocated()),
        ("active", summary.active().filter(|_| summary.active() != summary.allocated())),
        ("requested", summary.requested()),
        ("reserved", summary.reserved()),
        ("non-releasable", summary.non_releasable()),
    ];
    for (name, (now, peak)) in rows.into_iter().filter_map(|(name, row)| Some((name, row?))) {
        parts.push(format!("{name} {} (peak {})", size(now), size(peak)));
    }
    if parts.is_empty() {
        return None;
    }
    let rounding = match (summary.allocated(), summary.requested()) {
        (Some((allocated, _)), Some((requested, _)))
            if allocated.saturating_sub(requested) > allocated / WORTH_A_WORD =>
        {
            format!("; {} of the allocated memory is rounding", percent(share(allocated - requested, allocated)))
        }
        _ => String::new(),
    };
    let device = summary.device.map_or_else(String::new, |device| format!(" of GPU {device}"));
    let retries = match summary.retries {
        0 => String::new(),
        retries => format!(
            "; {} of the allocator, which released its cache each time: the GPU was full before",
            counted(usize::try_from(retries).unwrap_or(usize::MAX), "retry", "retries")
        ),
    };
    Some(format!("the memory summary{device} in the log: {}{rounding}{retries}", parts.join(", ")))
}

/// The answer to a log that has a table and no error.
pub(super) fn explain(found: &Found) -> Option<Answer> {
    let at = found.summaries.iter().position(|summary| summary.ooms > 0)?;
    let summary = &found.summaries[at];
    let ((allocated, _), (reserved, _)) = (summary.allocated()?, summary.reserved()?);
    let active = summary.active().map_or(allocated, |(active, _)| active);
    let unallocated = reserved.saturating_sub(active);
    let situation = Situation {
        device: summary.device,
        allocated_bytes: Some(allocated),
        held_bytes: Some(reserved),
        unallocated_bytes: Some(reserved.saturating_sub(allocated)),
        is_printed: true,
        knows_expandable_segments: true,
        is_notebook: found.surroundings.is_notebook,
        has_memory_pools: found.surroundings.has_memory_pools,
        torch: found.surroundings.torch,
        ..Situation::default()
    };
    let failed = counted(usize::try_from(summary.ooms).unwrap_or(usize::MAX), "request", "requests");
    let is_fragmented = unallocated >= WORTH_A_WORD_BYTES.max(reserved / WORTH_A_WORD);
    let (cause, text) = if is_fragmented {
        let text = format!(
            "{failed} failed although {} of the {} reserved was not in any tensor ({} now allocated): fragmentation, \
             or memory that was freed \
             after the failure",
            size(unallocated),
            size(reserved),
            size(allocated)
        );
        (Cause::Fragmentation, text)
    } else {
        let text = format!(
            "{failed} failed with {} of the {} reserved in tensors: the program needs more memory than there is; the table does not show \
             how much was requested or free",
            size(allocated),
            size(reserved)
        );
        (Cause::TooBig, text)
    };
    let mut diagnosis = because(cause, text);
    diagnosis.notes.extend(totals(summary));
    let mut steps: Vec<Step> = steps(&situation, &diagnosis);
    if is_fragmented && !found.surroundings.has_expandable_segments {
        let step = Step::new(
            "expandable-segments",
            "turn on expandable segments, so that free pieces can be merged",
            format!("{} is reserved but unallocated", size(unallocated)),
        );
        let variable = highwater_allocator::settings::VARIABLE;
        steps.insert(0, step.with(format!("{variable}=expandable_segments:True")).brings(unallocated, None));
    }
    steps.push(record_a_snapshot(&situation));
    Some(Answer { subject: Subject::Summary(at), situation: Some(situation), diagnosis, steps })
}

#[expect(clippy::cast_precision_loss, reason = "a ratio for showing")]
fn share(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64
}
