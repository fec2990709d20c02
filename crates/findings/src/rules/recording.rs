//! What the recording itself does not show.

use highwater_units::counted;

use super::{Evidence, Finding, Severity};

/// Entries are missing: a ring buffer that wrapped, or a file that was cut.
pub(super) fn truncated(evidence: &Evidence<'_>) -> Option<Finding> {
    let recorded = &evidence.device.recorded;
    if !recorded.truncated {
        return None;
    }
    unseen("truncated", evidence)
}

/// The recording began after the program did.
pub(super) fn late(evidence: &Evidence<'_>) -> Option<Finding> {
    if evidence.device.recorded.truncated { None } else { unseen("late-recording", evidence) }
}

fn unseen(id: &'static str, evidence: &Evidence<'_>) -> Option<Finding> {
    let recorded = &evidence.device.recorded;
    let unseen = recorded.unseen()?;
    let title = if evidence.device.has_history() { unseen } else { "peaks are unknown" };
    let finding = Finding::new(id, Severity::Info, title, recorded.reason.clone().unwrap_or_default());
    Some(match recorded.cause {
        Some(cause) => finding.change(cause.advice()),
        None => finding,
    })
}

pub(super) fn without_stacks(evidence: &Evidence<'_>) -> Option<Finding> {
    let entries = evidence.device.entries;
    if !evidence.device.has_history() || entries.stacks().iter().any(|stack| stack.is_recorded()) {
        return None;
    }
    let title = "no stacks were recorded: allocations cannot be traced to code";
    let detail = format!("{} without `frames`", counted(entries.len(), "entry", "entries"));
    Some(Finding::new("no-stacks", Severity::Info, title, detail).change(
        "record with `highwater run train.py`, or with `torch.cuda.memory._record_memory_history(context=\"alloc\", stacks=\"python\")`",
    ))
}
