//! Memory that is reserved and of no use.

use highwater_snapshot::BlockState;

use super::{Evidence, Finding, Severity};
use crate::units::{counted, percent, size};

/// Reserved at the peak and not asked for.
pub(super) fn idle_cache(evidence: &Evidence<'_>) -> Option<Finding> {
    const WORTH_A_WORD: u64 = 1 << 30;
    let device = evidence.device;
    let reserved = device.timeline.reserved_peak().bytes;
    let requested = device.timeline.requested_peak().bytes;
    let unused = reserved.saturating_sub(requested);
    // What was not recorded may have requested more.
    if !device.recorded.is_whole() || unused < WORTH_A_WORD || unused / 5 < requested / 20 {
        return None;
    }
    #[expect(clippy::cast_precision_loss, reason = "a ratio for showing")]
    let share = unused as f64 / reserved as f64;
    let title = format!("{} more was reserved than was ever requested at once", size(unused));
    let detail = format!(
        "the reserved peak is {}, the requested peak {}; the difference, {} of what was reserved, went to rounding and free \
         blocks",
        size(reserved),
        size(requested),
        percent(share)
    );
    Some(Finding::new("reserved-unused", Severity::Warning, title, detail))
}

/// Free memory at the dump that only a CUDA graph or a `MemPool` can use.
pub(super) fn private_pools(evidence: &Evidence<'_>) -> Option<Finding> {
    const WORTH_A_WORD: u64 = 64 << 20;
    let device = evidence.device;
    let held = device.fragmentation.private_pool_free_bytes;
    if held < WORTH_A_WORD || held < device.end.reserved_bytes / 20 {
        return None;
    }
    let title = format!("{} is free, but in private pools", size(held));
    let detail = format!(
        "of {} reserved at the dump; memory of a CUDA graph or a `MemPool` serves requests of that pool only",
        size(device.end.reserved_bytes)
    );
    Some(
        Finding::new("private-pools", Severity::Warning, title, detail).change(
            "let graphs share a pool (`torch.cuda.graph(…, pool=…)`), and drop the pools and graphs that are done",
        ),
    )
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
        "{} at the dump wait until another stream is done with them (`record_stream`)",
        counted(blocks, "block", "blocks")
    );
    Some(Finding::new("awaiting-free", Severity::Warning, title, detail))
}
