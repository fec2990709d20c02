//! Memory that is reserved and of no use.

use highwater_snapshot::BlockState;
use highwater_units::{counted, percent_of, size};

use super::{Evidence, Finding, Severity};

/// Unused memory below this is not worth a word, nor is less than a fifth of what is reserved.
const WORTH_BYTES: u64 = 1 << 30;

/// Reserved at the peak and not asked for.
///
/// What came before the recording can have asked for no more than was reserved then: beyond that, the recording tells.
pub(super) fn idle_cache(evidence: &Evidence<'_>) -> Option<Finding> {
    let device = evidence.device;
    let reserved = device.timeline.reserved_peak().bytes;
    let requested = device.timeline.requested_peak().bytes;
    let before = device.timeline.start().reserved_bytes;
    if device.recorded.is_cut || !device.has_history() {
        return None;
    }
    let unused = reserved.saturating_sub(requested.max(before));
    if !is_worth_a_word(unused, reserved) {
        return unused_since_before(evidence);
    }
    let title = format!("{} more was reserved than was ever requested at once", size(unused));
    let detail = format!(
        "the reserved peak is {}, the requested peak {}; the difference, {} of the reserved memory, is rounding and \
         free blocks",
        size(reserved),
        size(requested),
        percent_of(reserved - requested, reserved)
    );
    Some(Finding::new("reserved-unused", Severity::Warning, title, detail).change(
        "try other allocator settings with `highwater simulate`; a request far larger than the others leaves the \
         most unused memory",
    ))
}

/// Reserved before the recording began, and at no entry in use since: an earlier peak may have needed it.
fn unused_since_before(evidence: &Evidence<'_>) -> Option<Finding> {
    let device = evidence.device;
    let before = device.timeline.start().reserved_bytes;
    let active = device.timeline.active_peak();
    let unused = before.saturating_sub(active.bytes);
    // What a ring buffer lost is more of the run; and what was given back on the way stood in nobody's way.
    if device.recorded.truncated || !is_worth_a_word(unused, before) || device.end.reserved_bytes < before - before / 10
    {
        return None;
    }
    let title = format!("{} was reserved before the recording began and stays unused", size(unused));
    let detail = format!(
        "{} was reserved at the first entry, and at most {} is active at once after it; either an earlier peak \
         needed the rest, or it is in pieces too small to use: the recording does not show which",
        size(before),
        size(active.bytes)
    );
    Some(Finding::new("reserved-unused", Severity::Info, title, detail).change(
        "record from the start of the process to see which code reserved it; if it ran only once, call \
         `torch.cuda.empty_cache()` right after it to release the segments that are entirely free",
    ))
}

fn is_worth_a_word(unused: u64, reserved: u64) -> bool {
    unused >= WORTH_BYTES && unused >= reserved / 5
}

/// Free memory at the dump, where nothing else is known.
pub(super) fn free_at_dump(evidence: &Evidence<'_>) -> Option<Finding> {
    const WORTH_A_WORD: u64 = 256 << 20;
    let device = evidence.device;
    let free = device.fragmentation.free_bytes;
    let reserved = device.end.reserved_bytes;
    if device.has_history() || free < WORTH_A_WORD || free < reserved / 10 {
        return None;
    }
    let (whole, partly) = (device.fragmentation.releasable_bytes, free - device.fragmentation.releasable_bytes);
    let title = format!("{} of {} reserved is free at the dump", size(free), size(reserved));
    let mut parts = Vec::new();
    if whole > 0 {
        parts.push(format!("{} in unused segments, which `empty_cache()` releases", size(whole)));
    }
    if partly > 0 {
        let pieces = pieces(evidence);
        parts.push(format!(
            "{} in segments that are partly in use, in {}, the largest of {}",
            size(partly),
            counted(pieces.count, "piece", "pieces"),
            size(pieces.largest_bytes)
        ));
    }
    let detail = format!(
        "{} of the reserved memory: {}; without a history, the cause is unknown",
        percent_of(free, reserved),
        parts.join(", and ")
    );
    // Between steps, whole segments are free as a matter of course.
    let severity = if partly < reserved / 10 { Severity::Info } else { Severity::Warning };
    let finding = Finding::new("free-at-dump", severity, title, detail);
    let finding = if whole > 0 { finding.saves(whole) } else { finding };
    Some(finding.change(if whole >= partly {
        "call `torch.cuda.empty_cache()` once, after the peak that reserved it, if other processes need the memory; \
         to see that peak, record a history (`torch.cuda.memory._record_memory_history()`)"
    } else {
        "set `PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True`, which lets free memory serve requests of other \
         sizes; to see how much, record a history (`torch.cuda.memory._record_memory_history()`) and run `highwater \
         simulate`"
    }))
}

/// Free blocks beside blocks in use.
#[derive(Default)]
struct Pieces {
    count: usize,
    largest_bytes: u64,
}

fn pieces(evidence: &Evidence<'_>) -> Pieces {
    let snapshot = evidence.analysis.snapshot;
    let mut pieces = Pieces::default();
    for segment in snapshot.segments_of(evidence.device.device) {
        if !snapshot.blocks_of(segment).iter().any(|block| block.state.is_active()) {
            continue;
        }
        for block in snapshot.blocks_of(segment).iter().filter(|block| !block.state.is_active()) {
            pieces.count += 1;
            pieces.largest_bytes = pieces.largest_bytes.max(block.size_bytes);
        }
    }
    pieces
}

/// Free memory at the dump that only a CUDA graph or a `MemPool` can use.
pub(super) fn private_pools(evidence: &Evidence<'_>) -> Option<Finding> {
    let device = evidence.device;
    let held = device.fragmentation.private_pool_free_bytes;
    if held < super::LEAST_WORTH_BYTES || held < device.end.reserved_bytes / 20 {
        return None;
    }
    let title = format!("{} is free, but in private pools", size(held));
    let detail = format!(
        "of {} reserved at the dump; memory of a CUDA graph or a `MemPool` serves only requests of that pool",
        size(device.end.reserved_bytes)
    );
    Some(Finding::new("private-pools", Severity::Warning, title, detail).change(
        "let graphs share a pool (`torch.cuda.graph(…, pool=…)`), and delete pools and graphs that are no \
             longer used",
    ))
}

/// Freed memory that other streams hold back at the dump.
pub(super) fn awaiting_free(evidence: &Evidence<'_>) -> Option<Finding> {
    const WORTH_A_WORD: u64 = 16 << 20;
    let device = evidence.device;
    let waiting = device.end.active_bytes.saturating_sub(device.end.allocated_bytes);
    if waiting < WORTH_A_WORD {
        return None;
    }
    let blocks = evidence.analysis.snapshot.device_blocks(device.device);
    let blocks = blocks.filter(|(_, block)| block.state == BlockState::ActiveAwaitingFree).count();
    let title = format!("{} is freed but not yet usable", size(waiting));
    let detail = format!(
        "{} at the dump wait for another stream that still uses them (`record_stream`)",
        counted(blocks, "block", "blocks")
    );
    Some(Finding::new("awaiting-free", Severity::Warning, title, detail))
}
