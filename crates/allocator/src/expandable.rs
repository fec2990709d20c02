//! Expandable segments: addresses reserved once, memory mapped page by page.

use crate::allocator::{Allocator, Request};
use crate::block::BlockId;
use crate::device::Device;
use crate::failure::Failure;
use crate::sizes::SMALL_SEGMENT_BYTES;
use crate::trace::{Action, Observer};

impl<D: Device, O: Observer> Allocator<D, O> {
    /// A block of at least the request's size, mapped where it was not; `None` if the driver refuses.
    ///
    /// # Source
    /// `spec/caching-allocator.md` sections 13.1 to 13.3.
    pub(crate) fn grow(&mut self, request: &Request) -> Option<BlockId> {
        let mut block = self.choose_unmapped(request)?;
        if !self.blocks[block].mapped && !self.map(block, self.blocks[block].size.min(request.size)) {
            return None;
        }
        while self.blocks[block].size < request.size {
            let tail = self.blocks[block].next;
            let missing = request.size - self.blocks[block].size;
            if !self.map(tail, missing.min(self.blocks[tail].size)) {
                // What this request mapped before stays, as free memory.
                return None;
            }
            block = tail;
        }
        self.remove(block);
        Some(block)
    }

    /// Where a run of free and unmapped blocks is long enough; a new reservation if nowhere.
    fn choose_unmapped(&mut self, request: &Request) -> Option<BlockId> {
        let unmapped: Vec<BlockId> = self.pools[request.pool].unmapped(request.stream).iter().collect();
        for id in unmapped {
            let before = self.blocks[id].prev.exists().filter(|&prev| self.blocks[prev].is_idle());
            let start = before.unwrap_or(id);
            let run = std::iter::successors(Some(start), |&at| self.blocks[at].next.exists());
            let mut reach = 0;
            for at in run.take_while(|&at| self.blocks[at].is_idle()) {
                reach += self.blocks[at].size;
                if reach >= request.size {
                    return Some(start);
                }
            }
        }
        self.new_reservation(request)
    }

    /// The unit of mapping.
    pub(crate) fn page_bytes(&self, small: bool) -> u64 {
        if small { SMALL_SEGMENT_BYTES } else { self.settings.large_segment_bytes }
    }

    fn new_reservation(&mut self, request: &Request) -> Option<BlockId> {
        let page = self.page_bytes(self.pools[request.pool].small);
        let bytes = self.settings.reservation_bytes(self.device.total_bytes(), page);
        let address = self.device.reserve(bytes)?;
        if bytes < request.size && self.rules.returns_short_reservations {
            self.device.release(address, bytes);
            return None;
        }
        let block = self.add_segment(request, address, bytes, page);
        self.insert(block);
        // One that is too short stays, and serves smaller requests.
        (bytes >= request.size).then_some(block)
    }

    /// Maps the first `bytes` of an unmapped block, in whole pages, and merges it with free neighbours; whether there
    /// was memory.
    fn map(&mut self, id: BlockId, bytes: u64) -> bool {
        let block = self.blocks[id];
        let mapped = bytes.next_multiple_of(self.segments[block.segment as usize].page);
        if !self.device.map(block.address, mapped) {
            return false;
        }
        self.remove(id);
        self.blocks[id].mapped = true;
        if mapped < block.size {
            let rest = self.piece_of(id, block.address + mapped, block.size - mapped);
            self.blocks[rest].mapped = false;
            self.blocks.link_after(rest, id);
            self.insert(rest);
            self.blocks[id].size = mapped;
        }
        self.merge(id, block.prev);
        let next = self.blocks[id].next;
        self.merge(id, next);
        self.insert(id);
        self.used_bytes += mapped;
        self.stats.mapped(self.pools[block.pool as usize].small, mapped);
        self.record_range(Action::SegmentMap, block.address, mapped, block.stream, block.pool);
        true
    }

    /// Unmaps the complete pages inside a free block; what is left of it at either end stays free.
    ///
    /// # Source
    /// `spec/caching-allocator.md` section 13.4.
    pub(crate) fn unmap(&mut self, id: BlockId) -> Result<(), Failure> {
        let block = self.blocks[id];
        let segment = self.segments[block.segment as usize];
        let from = segment.address + (block.address - segment.address).next_multiple_of(segment.page);
        let inside = block.end() - segment.address;
        let to = segment.address + inside - inside % segment.page;
        if from >= to {
            return Ok(());
        }
        self.remove(id);
        if from > block.address {
            let before = self.piece_of(id, block.address, from - block.address);
            self.blocks.link_before(before, id);
            self.insert(before);
        }
        if to < block.end() {
            let after = self.piece_of(id, to, block.end() - to);
            self.blocks.link_after(after, id);
            self.insert(after);
        }
        let bytes = to - from;
        self.blocks[id].address = from;
        self.blocks[id].size = bytes;
        self.blocks[id].mapped = false;
        self.device.unmap(from, bytes);
        self.used_bytes -= bytes;
        let (prev, next) = (self.blocks[id].prev, self.blocks[id].next);
        self.merge(id, prev);
        self.merge(id, next);
        self.insert(id);
        let pool = &self.pools[block.pool as usize];
        let (small, owner) = (pool.small, pool.owner);
        self.count_return(owner)?;
        self.stats.unmapped(small, bytes);
        self.record_range(Action::SegmentUnmap, from, bytes, block.stream, block.pool);
        self.release_if_empty(id);
        Ok(())
    }

    /// Returns the addresses of a reservation in which nothing is mapped any more.
    fn release_if_empty(&mut self, id: BlockId) {
        if self.blocks[id].is_split() {
            return;
        }
        self.remove(id);
        let segment = self.segments[self.blocks[id].segment as usize];
        self.device.release(segment.address, segment.bytes);
        self.drop_segment(id);
    }
}
