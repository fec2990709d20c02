//! Requests that found no room, had the whole cache given back, and were tried again.

use highwater_analysis::blocks::followed_settings;
use highwater_analysis::device::DeviceAnalysis;
use highwater_analysis::oom::Cause;
use highwater_snapshot::{Action, EntryId, StackId};
use highwater_units::{count, percent_of, size};

use super::releases::{Release, releases};
use super::{Evidence, Finding, Severity, place};

/// A second attempt that succeeded.
struct Retry {
    release: Release,
    /// Reserved when the first attempt failed.
    reserved_bytes: u64,
    /// What both attempts asked the driver for.
    segment_bytes: u64,
}

/// One finding for all of them, with the bound that they give on what the allocator can have.
pub(super) fn retries(evidence: &Evidence<'_>) -> Option<Finding> {
    let analysis = evidence.analysis;
    // The garbage collector gives memory back for a request, too, and long before there is no room.
    if followed_settings(analysis.snapshot).garbage_collection_threshold > 0.0 {
        return None;
    }
    let retries = found(evidence.device);
    let first = retries.first()?;
    let given_back = retries.iter().map(|retry| retry.release.bytes).fold(0, u64::saturating_add);
    let at_least = evidence.device.timeline.reserved_peak().bytes;
    let refused = retries.iter().map(|retry| retry.reserved_bytes.saturating_add(retry.segment_bytes));
    let failed = evidence.device.oom.iter().filter(|event| event.cause == Cause::Limit);
    let less_than = refused.chain(failed.map(|event| event.limit_bytes(at_least).1)).min()?;
    let active = evidence.device.timeline.active_peak().bytes;
    let entries = evidence.device.entries;
    let at = analysis.sites.site(entries.stacks()[first.release.rows.end]);
    let title = match retries.len() {
        1 => "one request succeeded only after the allocator had emptied its cache".to_owned(),
        n => format!("{n} requests succeeded only after the allocator had emptied its cache"),
    };
    // On a card that others use, too, what there is may change from one attempt to the next.
    let bound = if less_than > at_least {
        format!("the allocator could reserve at least {} here, and less than {}", size(at_least), size(less_than))
    } else {
        format!("the allocator could reserve at most {} here", size(at_least))
    };
    let which = if retries.len() == 1 { "" } else { " first" };
    let detail = format!(
        "the driver, or a limit, refused {}{which} at entry {}, at {}; the allocator released {} of free blocks \
         before the request succeeded; {bound}, and {} of that, {}, is active at the peak",
        size(first.segment_bytes),
        count(first.release.rows.start),
        place(analysis, at),
        size(given_back),
        percent_of(active, at_least),
        size(active)
    );
    Some(Finding::new("allocation-retries", Severity::Warning, title, detail).change(
        "each retry waits for the GPU and empties the cache, and the next one may fail: set \
         `PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True`, which wastes less memory in the cache, or use a \
         smaller batch or equal shapes",
    ))
}

/// How often a request made the allocator release its cache and try again, as far as stacks tell.
pub fn retries_of(device: &DeviceAnalysis<'_>) -> usize {
    found(device).len()
}

/// The retries of a recording: releases with the stack of the request that reserves right after.
fn found(device: &DeviceAnalysis<'_>) -> Vec<Retry> {
    let entries = device.entries;
    let has_frames = |stack: StackId| stack.is_recorded() && stack != StackId::EMPTY;
    // `empty_cache()` is called from Python: where stacks have frames, one without is of a thread that cannot call it.
    let are_recorded = entries.stacks().iter().copied().any(has_frames);
    let retry = |release: Release| {
        let next = release.rows.end;
        let reserves = matches!(*entries.actions().get(next)?, Action::SEGMENT_ALLOC | Action::SEGMENT_MAP);
        let is_retry = release.is_for_request && reserves && are_recorded && entries.stacks()[next].is_recorded();
        let before = release.rows.start.checked_sub(1).map(EntryId::from_index);
        is_retry.then(|| Retry {
            reserved_bytes: device.totals(before).reserved_bytes,
            segment_bytes: entries.sizes_bytes()[next],
            release,
        })
    };
    releases(entries).into_iter().filter_map(retry).collect()
}
