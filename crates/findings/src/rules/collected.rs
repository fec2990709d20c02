//! Equal blocks of one line that are alive at a dump without a history: results that something collects.

use std::cmp::Reverse;

use highwater_analysis::growth::is_kept_by_design;
use highwater_analysis::place::place;
use highwater_snapshot::StackId;
use highwater_units::size;
use rustc_hash::FxHashMap;

use super::{Evidence, Finding, Severity};

/// Fewer may be what one call has made.
const MIN_COUNT: usize = 5;
/// Less, in parts of what is alive, is a detail.
const LEAST_PART: u64 = 20;

/// Nothing tells when the blocks were made. But where little else that a pass makes is alive, as many equal blocks of one line are the
/// results of as many calls; unless there are as many layers, or a constructor made them.
pub(super) fn collected_results(evidence: &Evidence<'_>) -> Option<Finding> {
    let device = evidence.device;
    if device.has_history() {
        return None;
    }
    let snapshot = evidence.analysis.snapshot;
    let (mut made, mut kept) = (FxHashMap::<(StackId, u64), usize>::default(), FxHashMap::<u64, usize>::default());
    for (row, lifetime) in evidence.rows() {
        let bytes = lifetime.requested_bytes;
        if is_kept_by_design(device.decided(row).category) || snapshot.stacks.get(lifetime.stack).is_empty() {
            *kept.entry(bytes).or_default() += 1;
        } else {
            *made.entry((lifetime.stack, bytes)).or_default() += 1;
        }
    }
    let held = |(&(_, bytes), &count): (&(StackId, u64), &usize)| bytes.saturating_mul(count as u64);
    let (&(stack, bytes), &count) = made.iter().max_by_key(|&group| (held(group), Reverse(group.0.0)))?;
    let all = made.iter().map(held).fold(0, u64::saturating_add);
    let in_all = bytes.saturating_mul(count as u64);
    // The weights of a layer come once for each.
    let is_of_layers = kept.values().any(|parameters| parameters % count == 0);
    let is_constructed = || {
        let frames = snapshot.stacks.get(stack).iter();
        frames.map(|&frame| snapshot.text(snapshot.frames.get(frame).name)).any(|name| name.ends_with("__init__"))
    };
    let is_detail = in_all < evidence.peak.bytes / LEAST_PART || all - in_all > in_all / 2;
    if count < MIN_COUNT || is_of_layers || is_detail || is_constructed() {
        return None;
    }
    let title = format!("{count} blocks of equal size from one line are alive at once: {}", size(in_all));
    let detail = format!(
        "each has {} and was allocated at {}: {count} results that the program collects, or buffers that it \
         allocates on purpose",
        size(bytes),
        place(evidence.analysis, evidence.analysis.sites.site(stack))
    );
    let change = "collect numbers (`.item()`) or copies on the host (`.cpu()`), and limit how many tensors stay on \
     the GPU";
    Some(Finding::new("collected-results", Severity::Info, title, detail).change(change))
}
