//! Freeing: at once, or when other streams are done with the block.

use std::collections::VecDeque;

use crate::allocator::Allocator;
use crate::block::{Block, BlockId};
use crate::device::Device;
use crate::ordered::Key;
use crate::pool::by_address;
use crate::trace::{Action, Observer};

/// The hash by which PyTorch orders streams: that of device 0.
///
/// # Source
/// PyTorch `c10/core/Stream.h`, `Stream::hash`.
fn hash_of_stream(handle: u64) -> u64 {
    const CUDA: u64 = 1 << 56;
    const ID: u64 = (1 << 48) - 1;
    CUDA | (handle & ID)
}

/// A block that was taken into another.
#[derive(Clone, Copy, Debug)]
struct Gone {
    id: BlockId,
    /// Under which it still stands among the blocks of its pool.
    key: Key,
    size: u64,
}

impl<D: Device, O: Observer> Allocator<D, O> {
    /// `Tensor.record_stream`: the block is also used on `stream`, so its free waits for it.
    ///
    /// # Source
    /// `spec/caching-allocator.md` section 12.3.
    pub fn record_stream(&mut self, block: BlockId, stream: u64) {
        let row = self.streams.row(stream);
        if row == self.blocks[block].stream {
            return;
        }
        self.uses.entry(block).or_default().insert(hash_of_stream(stream), row);
        self.blocks[block].has_uses = true;
        if self.is_capture_running() {
            self.captured_uses.entry(block).or_default().push(hash_of_stream(stream));
        }
    }

    /// Takes a block back. After this its id means nothing to the caller.
    ///
    /// # Source
    /// `spec/caching-allocator.md` section 12.1.
    pub fn free(&mut self, id: BlockId) {
        self.blocks[id].allocated = false;
        let Block { size, requested, pool, has_uses, .. } = self.blocks[id];
        let small = self.pools[pool as usize].small;
        self.stats.free_requested(small, size, size >= self.settings.max_split_bytes);
        self.record(Action::FreeRequested, id, requested);
        if !has_uses {
            self.complete_free(id);
        } else if self.is_capture_running() {
            self.deferred.push(id);
        } else {
            self.record_events(id);
        }
    }

    /// Completes the frees whose events are complete, as the next request would.
    pub fn poll_events(&mut self) {
        if !self.is_capture_running() {
            self.process_events();
        }
    }

    /// One event on each stream that the block was used on.
    fn record_events(&mut self, id: BlockId) {
        self.blocks[id].has_uses = false;
        self.captured_uses.remove(&id);
        for stream in self.uses.remove(&id).unwrap_or_default().values() {
            let row = stream as usize;
            if row >= self.events.len() {
                self.events.resize_with(row + 1, VecDeque::new);
            }
            self.events[row].push_back(id);
            self.waiting.insert(hash_of_stream(self.streams.handle(stream)), stream);
            self.blocks[id].pending_events += 1;
        }
    }

    fn record_deferred(&mut self) {
        for id in std::mem::take(&mut self.deferred) {
            // What streams did during the capture is done when it ends: only earlier uses are waited for.
            let captured = self.captured_uses.remove(&id).unwrap_or_default();
            if let Some(uses) = self.uses.get_mut(&id) {
                for stream in captured {
                    uses.remove(stream);
                }
            }
            self.record_events(id);
            if self.blocks[id].pending_events == 0 {
                self.complete_free(id);
            }
        }
    }

    /// Completes the frees whose events are complete. A stream that is not done keeps its queue, and no other.
    pub(crate) fn process_events(&mut self) {
        self.record_deferred();
        let mut slot = 0;
        while let Some((at, hash, stream)) = self.waiting.taken_from(slot) {
            slot = at;
            if !self.device.is_done(self.streams.handle(stream)) {
                slot += 1;
                continue;
            }
            while let Some(id) = self.events[stream as usize].pop_front() {
                self.complete_event(id);
            }
            // The next one may move into this slot.
            self.waiting.remove(hash);
        }
    }

    /// Waits for all events, or for those of one private pool's blocks.
    pub(crate) fn synchronize(&mut self, only: Option<usize>) {
        self.stats.num_sync_all_streams += 1;
        self.record_deferred();
        for stream in self.waiting.values() {
            let queue = std::mem::take(&mut self.events[stream as usize]);
            for id in queue {
                let owner = self.pools[self.blocks[id].pool as usize].owner;
                if only.is_none() || owner == only {
                    self.complete_event(id);
                } else {
                    self.events[stream as usize].push_back(id);
                }
            }
        }
        if only.is_none() {
            self.waiting.clear();
        }
    }

    fn complete_event(&mut self, id: BlockId) {
        self.blocks[id].pending_events -= 1;
        if self.blocks[id].pending_events == 0 {
            self.complete_free(id);
        }
    }

    /// Puts a block back into its pool, merged with free neighbours.
    ///
    /// # Source
    /// `spec/caching-allocator.md` section 12.2; PyTorch `free_block`.
    #[inline]
    fn complete_free(&mut self, id: BlockId) {
        let Block { size, requested, pool, prev, next, .. } = self.blocks[id];
        let small = self.pools[pool as usize].small;
        self.record(Action::FreeCompleted, id, requested);
        let (before, after) = (self.absorb(id, prev), self.absorb(id, next));
        let stream = self.blocks[id].stream;
        let free = self.pools[pool as usize].free(stream);
        // It takes the place of a neighbour that was free, which spares a removal and an insertion.
        let at = match (before, after) {
            (None, None) => None,
            (Some(gone), None) | (None, Some(gone)) => free.find(gone.key, gone.id),
            (Some(gone), Some(other)) => {
                free.remove(gone.key, gone.id);
                free.find(other.key, other.id)
            }
        };
        self.put_free(id, at);
        if !self.is_expandable(id) {
            self.count_splits(id, small, [before, after].map(|gone| gone.map_or(0, |gone| gone.size)));
        }
        self.stats.free_completed(small, size, requested);
    }

    /// Only the balance of a free counts: its neighbours are gone, and it is there, if it still has others.
    fn count_splits(&mut self, id: BlockId, small: bool, merged: [u64; 2]) {
        let gone = merged.iter().filter(|&&bytes| bytes > 0).count() as u64;
        let gone_bytes = merged[0] + merged[1];
        let block = &self.blocks[id];
        let (come, come_bytes) = if block.is_split() { (1, block.size) } else { (0, 0) };
        let stats = &mut self.stats;
        for (metric, come, gone) in
            [(&mut stats.inactive_split, come, gone), (&mut stats.inactive_split_bytes, come_bytes, gone_bytes)]
        {
            // Either is 0. To look which would be a branch that nobody foresees.
            metric.increase(small, come.saturating_sub(gone));
            metric.decrease(small, gone.saturating_sub(come));
        }
    }

    /// Takes a neighbour into `id`, which is in no set, if it can.
    pub(crate) fn merge(&mut self, id: BlockId, neighbour: BlockId) {
        if let Some(gone) = self.absorb(id, neighbour) {
            let Block { mapped, pool, stream, .. } = self.blocks[id];
            let pool = &mut self.pools[pool as usize];
            if mapped {
                pool.free(stream).remove(gone.key, gone.id);
            } else {
                pool.unmapped(stream).remove(gone.key, gone.id);
            }
        }
    }

    /// Takes a neighbour into `id`, if it can: the neighbour is then gone, but for the set in which it stands.
    #[inline]
    fn absorb(&mut self, id: BlockId, neighbour: BlockId) -> Option<Gone> {
        let other = &self.blocks[neighbour.exists()?];
        let can_merge = other.is_idle() && other.mapped == self.blocks[id].mapped;
        can_merge.then(|| self.take_in(id, neighbour))
    }

    fn take_in(&mut self, id: BlockId, neighbour: BlockId) -> Gone {
        let other = &self.blocks[neighbour];
        let key = if other.mapped { self.key(other) } else { by_address(other.address) };
        let Block { address, size, prev, next, .. } = *other;
        let block = &mut self.blocks[id];
        block.size += size;
        if block.prev == neighbour {
            block.address = address;
            block.prev = prev;
            if let Some(prev) = prev.exists() {
                self.blocks[prev].next = id;
            }
        } else {
            block.next = next;
            if let Some(next) = next.exists() {
                self.blocks[next].prev = id;
            }
        }
        self.blocks.remove(neighbour);
        Gone { id: neighbour, key, size }
    }
}
