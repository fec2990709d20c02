//! What no allocator can do without: the memory that the program itself holds.

use highwater_allocator::sizes::MIN_BLOCK_BYTES;
use highwater_snapshot::EntryId;

use super::packing::Interval;
use crate::replay::{Program, Step};

/// The largest amount that a program holds at once, each request rounded up to 512 bytes: a lower bound for every
/// setting, for all of them round at least so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LiveBytes {
    /// Bytes.
    pub bytes: u64,
    /// Where; `None` if before the recording.
    pub entry: Option<EntryId>,
    /// The largest amount as asked for, without any rounding.
    pub requested_bytes: u64,
}

fn rounded(bytes: u64) -> u64 {
    bytes.max(1).saturating_add(MIN_BLOCK_BYTES - 1) / MIN_BLOCK_BYTES * MIN_BLOCK_BYTES
}

/// Finds that amount. A request that failed counts at the moment it was made.
pub fn live_bytes(program: &Program) -> LiveBytes {
    let mut held = vec![0u64; program.slots];
    let (mut now, mut now_requested) = (0u64, 0u64);
    let mut most = LiveBytes::default();
    let mut reach = |bytes: u64, requested: u64, entry: u32| {
        if bytes > most.bytes {
            most.bytes = bytes;
            most.entry = (entry != u32::MAX).then(|| EntryId::new(entry));
        }
        most.requested_bytes = most.requested_bytes.max(requested);
    };
    for step in &program.steps {
        match *step {
            Step::Alloc { slot, entry, bytes, .. } => {
                held[slot as usize] = bytes;
                now = now.saturating_add(rounded(bytes));
                now_requested = now_requested.saturating_add(bytes);
                reach(now, now_requested, entry);
            }
            Step::Attempt { entry, bytes, .. } => {
                reach(now.saturating_add(rounded(bytes)), now_requested.saturating_add(bytes), entry);
            }
            Step::Free { slot } | Step::FreeLater { slot, .. } => {
                let bytes = std::mem::take(&mut held[slot as usize]);
                if bytes > 0 {
                    now = now.saturating_sub(rounded(bytes));
                    now_requested = now_requested.saturating_sub(bytes);
                }
            }
            Step::Done { .. } | Step::EmptyCache { .. } => {}
        }
    }
    most
}
/// When each block is held, in steps of the program: to be packed as tightly as can be.
pub fn intervals(program: &Program) -> Vec<Interval> {
    let mut intervals: Vec<Interval> = Vec::with_capacity(program.steps.len() / 2);
    let mut rows = vec![usize::MAX; program.slots];
    for (at, step) in program.steps.iter().enumerate() {
        let at = highwater_analysis::lifetime::number(at);
        match *step {
            Step::Alloc { slot, bytes, .. } => {
                rows[slot as usize] = intervals.len();
                intervals.push(Interval { start: at, end: u32::MAX, bytes: rounded(bytes) });
            }
            Step::Attempt { bytes, .. } => intervals.push(Interval { start: at, end: at + 1, bytes: rounded(bytes) }),
            Step::Free { slot } | Step::FreeLater { slot, .. } => {
                if let Some(interval) = intervals.get_mut(rows[slot as usize]) {
                    interval.end = at;
                }
            }
            Step::Done { .. } | Step::EmptyCache { .. } => {}
        }
    }
    intervals
}
