//! What the peak would have been, had some memory been freed earlier: the totals of the recording, less what would be gone.
//!
//! Exact for requested and allocated bytes, which are sums over what lives. Reserved bytes need the allocator: see `whatif`.

use std::ops::Range;

use crate::device::DeviceAnalysis;

/// Bytes that would not have been there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Without {
    /// After these entries.
    pub entries: Range<usize>,
    /// How many.
    pub bytes: u64,
}

/// The peak of the total that the report goes by, without some bytes at some entries.
///
/// What is taken away must have been there: lifetimes of the device, each at most once.
pub fn peak_without(device: &DeviceAnalysis<'_>, without: &[Without]) -> u64 {
    let entries = device.entries.len();
    let mut changes: Vec<(usize, i128)> = Vec::with_capacity(without.len() * 2);
    for Without { entries: gone, bytes } in without {
        let end = gone.end.min(entries);
        if gone.start < end {
            changes.push((gone.start, -i128::from(*bytes)));
            changes.push((end, i128::from(*bytes)));
        }
    }
    changes.sort_unstable_by_key(|&(entry, _)| entry);
    let mut peak = i128::from(device.by.of(&device.timeline.start()));
    let (mut from, mut change) = (0, 0_i128);
    for (entry, by) in changes.into_iter().chain([(entries, 0)]) {
        if entry > from {
            let (totals, _) = device.timeline.peak_in(from..entry, device.by);
            peak = peak.max(i128::from(device.by.of(&totals)) + change);
            from = entry;
        }
        change += by;
    }
    u64::try_from(peak).unwrap_or(0)
}
