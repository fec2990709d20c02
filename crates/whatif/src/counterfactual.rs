//! What the peak would have been, had some memory been there at other times: the totals of the recording, with that changed.
//!
//! Exact for requested and allocated bytes, which are sums over what lives. Reserved bytes need the allocator: see `whatif`.

use std::ops::Range;

use highwater_analysis::device::DeviceAnalysis;

/// Bytes that would have been there, or would not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// After these entries.
    pub entries: Range<usize>,
    /// How many more; less than nothing for bytes that would be gone.
    pub bytes: i64,
}

impl Change {
    /// Bytes that would not have been there after some entries.
    pub fn without(entries: Range<usize>, bytes: u64) -> Self {
        Self { entries, bytes: -i64::try_from(bytes).unwrap_or(i64::MAX) }
    }

    /// Bytes that would have been there beside the others.
    pub fn with(entries: Range<usize>, bytes: u64) -> Self {
        Self { entries, bytes: i64::try_from(bytes).unwrap_or(i64::MAX) }
    }
}

/// The total that the report goes by, after every entry.
#[derive(Clone, Debug)]
pub struct History {
    start: u64,
    after: Vec<u64>,
}

impl History {
    /// Walks over the recording once.
    pub fn new(device: &DeviceAnalysis<'_>) -> Self {
        let totals = device.timeline.iter(0..device.entries.len());
        let after = totals.map(|(_, totals)| device.by.of(&totals)).collect();
        Self { start: device.by.of(&device.timeline.start()), after }
    }

    /// The peak with some changes; what is taken away must have been there.
    pub fn peak_with(&self, changes: &[Change]) -> u64 {
        let mut steps: Vec<(usize, i128)> = Vec::with_capacity(changes.len() * 2);
        for Change { entries, bytes } in changes {
            let end = entries.end.min(self.after.len());
            if entries.start < end {
                steps.push((entries.start, i128::from(*bytes)));
                steps.push((end, -i128::from(*bytes)));
            }
        }
        steps.sort_unstable_by_key(|&(entry, _)| entry);
        let mut peak = i128::from(self.start);
        let (mut from, mut change) = (0, 0_i128);
        for (entry, by) in steps.into_iter().chain([(self.after.len(), 0)]) {
            if let Some(&highest) = self.after[from..entry].iter().max() {
                peak = peak.max(i128::from(highest) + change);
            }
            from = entry;
            change += by;
        }
        u64::try_from(peak.max(0)).unwrap_or(u64::MAX)
    }
}
