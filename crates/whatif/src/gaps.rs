//! What was reserved and not in use when a request failed in a run.

use highwater_allocator::sizes::SMALL_MAX_BYTES;
use highwater_allocator::{AddressPolicy, BlockState, Memory, Region, Settings};

use super::pinned::Failed;
use super::study::{Study, machine};

/// Free memory of the allocator at a failure, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gaps {
    /// Free in segments that the request could have been served from.
    pub usable_bytes: u64,
    /// Such segments with something free.
    pub segments: usize,
    /// Pieces that this is in.
    pub pieces: usize,
    /// The largest piece: smaller than the request, or it would have been taken.
    pub largest_bytes: u64,
    /// Free in segments of other streams, or of the pool for small requests.
    pub elsewhere_bytes: u64,
    /// Free in private pools.
    pub private_bytes: u64,
}

impl Study {
    /// What was free when the first request of a run failed; `None` if none does.
    pub fn gaps(&self, settings: &Settings, memory: Memory) -> Option<Gaps> {
        let machine = machine(settings, memory, AddressPolicy::Driver);
        let Failed { runner, failure, stream, pool } = self.failed(&machine)?;
        let is_large = failure.rounded_bytes > SMALL_MAX_BYTES;
        let mut gaps = Gaps::default();
        for region in &runner.allocator.regions() {
            let free = || free_pieces(region);
            let bytes = free().sum::<u64>();
            if bytes == 0 {
                continue;
            }
            if region.pool != pool {
                let counted = if region.pool == 0 { &mut gaps.elsewhere_bytes } else { &mut gaps.private_bytes };
                *counted += bytes;
            } else if region.stream == stream && region.is_large == is_large {
                gaps.usable_bytes += bytes;
                gaps.segments += 1;
                gaps.pieces += free().count();
                gaps.largest_bytes = gaps.largest_bytes.max(free().max().unwrap_or(0));
            } else {
                gaps.elsewhere_bytes += bytes;
            }
        }
        Some(gaps)
    }
}

/// Free blocks; what is unmapped is not reserved.
fn free_pieces(region: &Region) -> impl Iterator<Item = u64> {
    let free = region.parts.iter().filter(|(_, state)| *state == Some(BlockState::Inactive));
    free.map(|(block, _)| block.size_bytes)
}
