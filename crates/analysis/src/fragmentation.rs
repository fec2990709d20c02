//! Fragmentation at the dump, measured in more than one way: each says what it counts.

use highwater_snapshot::{Snapshot, StreamId};
use rustc_hash::FxHashMap;

/// Free memory at the dump, and why it may not help.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Fragmentation {
    /// Held from the driver.
    pub reserved_bytes: u64,
    /// Reserved and in no active block: free for PyTorch, not for others.
    pub free_bytes: u64,
    /// Of the free bytes, those in segments with nothing active: `empty_cache()` gives them back. Whole pages of
    /// expandable segments are given back too; those are not counted here.
    pub releasable_bytes: u64,
    /// Of the free bytes, those in segments that are partly in use, as `inactive_split_bytes` of `memory_stats()`
    /// counts them: expandable segments do not count.
    pub inactive_split_bytes: u64,
    /// The largest free block: no request above it is served without more memory from the driver.
    pub largest_free_block_bytes: u64,
    /// Active bytes beyond what was asked for: the allocator's rounding.
    pub rounding_bytes: u64,
    /// Free bytes in private pools (CUDA graphs, `MemPool`): requests from elsewhere cannot have them.
    pub private_pool_free_bytes: u64,
    /// Free bytes on streams other than the one with the most reserved memory: a request is served from its own stream's.
    pub other_streams_free_bytes: u64,
}

impl Fragmentation {
    /// Of the free bytes, the share outside the largest free block: 0 if all is one piece, near 1 if all is crumbs.
    pub fn scattered_share(&self) -> Option<f64> {
        share(self.free_bytes.saturating_sub(self.largest_free_block_bytes), self.free_bytes)
    }

    /// Of the reserved bytes, the share that is free.
    pub fn free_share(&self) -> Option<f64> {
        share(self.free_bytes, self.reserved_bytes)
    }
}

/// `part` of `whole`; nothing of nothing.
#[expect(clippy::cast_precision_loss, reason = "a ratio of bytes, for showing")]
fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

/// Measures the segments of a device.
pub(crate) fn fragmentation(snapshot: &Snapshot, device: u32) -> Fragmentation {
    let mut result = Fragmentation::default();
    let mut by_stream: FxHashMap<StreamId, (u64, u64)> = FxHashMap::default();
    for segment in snapshot.segments_of(device) {
        let mut free = 0_u64;
        let mut active = 0_u64;
        for block in snapshot.blocks_of(segment) {
            if block.state.is_active() {
                active = active.saturating_add(block.size_bytes);
                let rounding = block.size_bytes.saturating_sub(block.requested_bytes);
                result.rounding_bytes = result.rounding_bytes.saturating_add(rounding);
            } else {
                free = free.saturating_add(block.size_bytes);
                result.largest_free_block_bytes = result.largest_free_block_bytes.max(block.size_bytes);
            }
        }
        result.reserved_bytes = result.reserved_bytes.saturating_add(segment.total_bytes);
        result.free_bytes = result.free_bytes.saturating_add(free);
        if active == 0 {
            result.releasable_bytes = result.releasable_bytes.saturating_add(free);
        }
        if snapshot.pool_id(segment.pool) != (0, 0) {
            result.private_pool_free_bytes = result.private_pool_free_bytes.saturating_add(free);
        }
        let (reserved, free_on_stream) = by_stream.entry(segment.stream).or_default();
        *reserved = reserved.saturating_add(segment.total_bytes);
        *free_on_stream = free_on_stream.saturating_add(free);
    }
    result.inactive_split_bytes = snapshot.end_totals(device).inactive_split_bytes;
    let all: u64 = by_stream.values().map(|&(_, free)| free).fold(0, u64::saturating_add);
    let main = by_stream.iter().max_by_key(|&(stream, &(reserved, _))| (reserved, std::cmp::Reverse(*stream)));
    result.other_streams_free_bytes = all - main.map_or(0, |(_, &(_, free))| free);
    result
}
