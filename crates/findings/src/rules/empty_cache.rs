//! `empty_cache()` that gave back what was needed again.

use highwater_snapshot::Action;
use highwater_units::{counted, size};

use super::releases::{Release, releases};
use super::{Evidence, Finding, Severity};

/// Calls below which there is no habit.
const MIN_CALLS: usize = 3;

/// A call bought nothing if so much of what it gave back is reserved again, in percent.
const AGAIN_PERCENT: u64 = 75;

/// One finding for all calls.
pub(super) fn empty_cache(evidence: &Evidence<'_>) -> Option<Finding> {
    let calls = calls(evidence);
    let (released, again, reserving) = calls.iter().fold((0_u64, 0_u64, 0_usize), |sum, call| {
        (sum.0.saturating_add(call.released_bytes), sum.1.saturating_add(call.again_bytes), sum.2 + call.reserving)
    });
    if calls.len() < MIN_CALLS || again < released / 100 * AGAIN_PERCENT {
        return None;
    }
    let title = format!("`empty_cache()` released {} that was reserved again", size(again));
    let detail = format!(
        "{} released {} to the driver, and {} reserved {} of it again; each waits for the GPU",
        counted(calls.len(), "call", "calls"),
        size(released),
        counted(reserving, "request", "requests"),
        size(again)
    );
    Some(Finding::new("empty-cache", Severity::Warning, title, detail).change(
        "remove `torch.cuda.empty_cache()` from the loop: PyTorch empties the cache by itself before a request \
         fails; the call only helps other processes on the GPU",
    ))
}

/// One call of `empty_cache()`.
struct Call {
    /// What it gave back.
    released_bytes: u64,
    /// How much of that was reserved again before the next call.
    again_bytes: u64,
    /// By so many requests to the driver.
    reserving: usize,
}

/// Runs of releases that no request made, and what was reserved after each.
fn calls(evidence: &Evidence<'_>) -> Vec<Call> {
    let entries = evidence.device.entries;
    let by_program = |release: &Release| !release.is_for_request && entries.stacks()[release.rows.start].is_recorded();
    let releases: Vec<Release> = releases(entries).into_iter().filter(by_program).collect();
    let ends = releases.iter().skip(1).map(|next| next.rows.start).chain([entries.len()]);
    let call = |(release, end): (&Release, usize)| {
        let mut call = Call { released_bytes: release.bytes, again_bytes: 0, reserving: 0 };
        for row in release.rows.end..end {
            let reserves = matches!(entries.actions()[row], Action::SEGMENT_ALLOC | Action::SEGMENT_MAP);
            if reserves && call.again_bytes < call.released_bytes {
                call.again_bytes = call.again_bytes.saturating_add(entries.sizes_bytes()[row]).min(call.released_bytes);
                call.reserving += 1;
            }
        }
        call
    };
    releases.iter().zip(ends).map(call).collect()
}
