//! Allocator settings under which the recording would have reserved less: the recording, run through the allocator again.

use super::{Evidence, Finding, Severity};
use crate::replay::Step;
use crate::units::size;
use crate::view::answer::{Replayed, is_asynchronous};
use crate::whatif::Least;

/// Unused memory below this share of what is reserved is not worth the replay, in percent.
const WORTH_PERCENT: u64 = 10;

/// Nor is less than this.
const WORTH_BYTES: u64 = 64 << 20;

/// Settings are tried by runs of the whole program: for recordings of more requests, `highwater simulate` does.
const MOST_REQUESTS: usize = 1_000_000;

/// One finding: the settings that reserve least.
pub(super) fn settings(evidence: &Evidence<'_>) -> Option<Finding> {
    let device = evidence.device;
    let reserved = device.timeline.reserved_peak().bytes;
    let unused = reserved.saturating_sub(device.timeline.active_peak().bytes);
    let is_small = unused < WORTH_BYTES || unused < reserved / 100 * WORTH_PERCENT;
    let requests = device.lifetimes.rows.len();
    if !device.recorded.is_whole() || is_small || requests > MOST_REQUESTS || is_asynchronous(evidence.analysis) {
        return None;
    }
    let study = Replayed::new(evidence.analysis, device, None).study;
    if !study.fidelity.is_exact() || study.program.steps.iter().all(|step| !matches!(step, Step::Alloc { .. })) {
        return None;
    }
    let worth = |own: u64| WORTH_BYTES.max(own / 100 * WORTH_PERCENT);
    let Least { conf, bytes, own_bytes } = study.least_reserved(reserved, |own| own.saturating_sub(worth(own)))?;
    let saving = own_bytes.saturating_sub(bytes);
    let title = format!("{} less would be reserved under other allocator settings", size(saving));
    let detail = format!(
        "replayed under `{conf}`, the recording's reserved peak is {} rather than {}",
        size(bytes),
        size(own_bytes)
    );
    let change = format!(
        "`PYTORCH_CUDA_ALLOC_CONF={conf}`; `highwater simulate` has all settings, and how little memory is enough"
    );
    Some(Finding::new("allocator-settings", Severity::Warning, title, detail).saves(saving).change(change))
}
