//! Giving memory back to the driver: after a failed request, by `empty_cache`, and by the garbage collector.

use crate::allocator::{Allocator, Request};
use crate::block::BlockId;
use crate::device::Device;
use crate::failure::{Failure, Undefined};
use crate::pool::{DEFAULT_LARGE, DEFAULT_SMALL};
use crate::settings::UNLIMITED;
use crate::trace::{Action, Observer};

impl<D: Device, O: Observer> Allocator<D, O> {
    /// `torch.cuda.empty_cache()`: returns what is cached and nobody uses.
    ///
    /// # Errors
    /// [`Failure::Undefined`] where PyTorch itself would break.
    ///
    /// # Source
    /// `spec/caching-allocator.md` section 10.
    pub fn empty_cache(&mut self) -> Result<(), Failure> {
        self.release_cached()
    }

    pub(crate) fn release_cached(&mut self) -> Result<(), Failure> {
        if !self.is_capture_running() {
            self.synchronize(None);
            self.release_pool(DEFAULT_LARGE)?;
            self.release_pool(DEFAULT_SMALL)?;
        }
        for id in self.freeable.values() {
            self.release_private(id)?;
        }
        Ok(())
    }

    /// Returns the segments of a pool that nobody uses, whole ones first, then pages of expandable ones.
    pub(crate) fn release_pool(&mut self, pool: usize) -> Result<(), Failure> {
        let free = self.pools[pool].all_free(&self.streams);
        let (expandable, whole): (Vec<BlockId>, Vec<BlockId>) =
            free.into_iter().partition(|&id| self.is_expandable(id));
        for block in whole {
            if !self.blocks[block].is_split() {
                self.release_block(block)?;
            }
        }
        for block in expandable {
            self.unmap(block)?;
        }
        Ok(())
    }

    /// `cudaFree` of a whole segment.
    pub(crate) fn release_block(&mut self, id: BlockId) -> Result<(), Failure> {
        let block = self.blocks[id];
        let pool = &self.pools[block.pool as usize];
        let (small, owner) = (pool.small, pool.owner);
        self.record(Action::SegmentFree, id, block.size);
        if block.is_split() {
            return Self::undefined(Undefined::PieceReleased);
        }
        self.device.free(block.address, block.size);
        self.used_bytes -= block.size;
        self.stats.segment_freed(small, block.size, block.size >= self.settings.max_split_bytes);
        self.remove(id);
        self.count_return(owner)?;
        self.drop_segment(id);
        Ok(())
    }

    /// Forgets a segment that is one block, which is in no set any more.
    pub(crate) fn drop_segment(&mut self, id: BlockId) {
        self.vacant_segments.push(self.blocks[id].segment);
        self.blocks.remove(id);
    }

    /// Releases oversize blocks until the request would fit; whether it would.
    ///
    /// # Source
    /// `spec/caching-allocator.md` section 9.
    pub(crate) fn release_available(&mut self, request: &Request) -> Result<bool, Failure> {
        let max_split = self.settings.max_split_bytes;
        if max_split == UNLIMITED {
            return Ok(false);
        }
        let wanted = request.size.max(max_split);
        let free = self.pools[request.pool].free(request.stream);
        let found = free.at_least(wanted);
        if let Some(block) = free.get(found)
            && !self.is_expandable(block)
        {
            self.release_block(block)?;
            return Ok(true);
        }
        let free = self.pools[request.pool].free(request.stream);
        let smaller = std::iter::successors(free.previous(found), |&at| free.previous(at));
        let smaller: Vec<BlockId> = smaller.filter_map(|at| free.get(at)).collect();
        let mut released = 0;
        for block in smaller {
            let size = self.blocks[block].size;
            if released >= wanted || size < max_split {
                break;
            }
            if !self.is_expandable(block) {
                released += size;
                self.release_block(block)?;
            }
        }
        Ok(released >= wanted)
    }

    /// The garbage collector: releases segments that have been free for long, the default large pool's only.
    ///
    /// # Source
    /// `spec/caching-allocator.md` section 11.
    #[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    pub(crate) fn collect_garbage(&mut self) -> Result<(), Failure> {
        let limit = self.limit_bytes.unwrap_or(u64::MAX) as f64;
        let threshold = (self.settings.garbage_collection_threshold * limit) as u64;
        if self.used_bytes <= threshold {
            return Ok(());
        }
        let target = self.used_bytes - threshold;
        let searches = self.pools[DEFAULT_LARGE].searches;
        let mut candidates = self.pools[DEFAULT_LARGE].all_free(&self.streams);
        candidates.retain(|&id| !self.blocks[id].is_split());
        let age = |allocator: &Self, id: BlockId| searches - allocator.blocks[id].searches_before;
        let mut count = candidates.len();
        let mut total_age: u64 = candidates.iter().map(|&id| age(self, id)).sum();
        candidates.retain(|&id| !self.is_expandable(id));
        let mut reclaimed = 0;
        let mut freed_some = true;
        while reclaimed < target && freed_some && count > 0 {
            let average = total_age as f64 / count as f64;
            freed_some = false;
            let mut kept = Vec::new();
            for block in candidates {
                let own = age(self, block);
                if (own as f64) < average {
                    kept.push(block);
                    continue;
                }
                reclaimed += self.blocks[block].size;
                total_age -= own;
                count -= 1;
                freed_some = true;
                self.release_block(block)?;
            }
            candidates = kept;
        }
        Ok(())
    }
}
