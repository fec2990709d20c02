//! Beginning amid a run: segments that are there already.

use crate::allocator::{Allocator, Request};
use crate::block::BlockId;
use crate::device::Device;
use crate::trace::Observer;

/// A segment that an allocator is given at the start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdoptedSegment {
    /// First byte.
    pub address: u64,
    /// The stream it belongs to.
    pub stream: u64,
    /// The private pool, which exists; 0 is the default one.
    pub pool: u64,
    /// Of the small pool.
    pub is_small: bool,
    /// Expandable.
    pub is_expandable: bool,
    /// What it consists of, from its first byte on without a gap.
    pub pieces: Vec<AdoptedPiece>,
}

/// A piece of an adopted segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdoptedPiece {
    /// Bytes, above 0.
    pub size_bytes: u64,
    /// What it is.
    pub state: AdoptedState,
}

/// What a piece is. No two pieces side by side are both free, or both unmapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdoptedState {
    /// Handed out, for a request of so many bytes.
    Allocated {
        /// Bytes as asked for.
        requested_bytes: u64,
    },
    /// Free.
    Free,
    /// Without memory: only in expandable segments.
    Unmapped,
}

impl<D: Device, O: Observer> Allocator<D, O> {
    /// Takes a segment over as it is, without a trace and without asking the device for it.
    ///
    /// The blocks of its pieces, in order; `None` for those that nobody holds.
    pub fn adopt_segment(&mut self, segment: &AdoptedSegment) -> Vec<Option<BlockId>> {
        let pool = match self.private_rows.get(&segment.pool) {
            Some(&row) if segment.is_small => self.private[row].small,
            Some(&row) => self.private[row].large,
            None => Self::default_pool(if segment.is_small { 0 } else { u64::MAX }),
        };
        let request =
            Request { pool, stream: self.streams.row(segment.stream), size: 0, expandable: segment.is_expandable };
        let bytes = segment.pieces.iter().map(|piece| piece.size_bytes).sum();
        let page = if segment.is_expandable { self.page_bytes(segment.is_small) } else { 0 };
        let head = self.add_segment(&request, segment.address, bytes, page);
        let mapped: u64 = segment
            .pieces
            .iter()
            .filter(|piece| piece.state != AdoptedState::Unmapped)
            .map(|piece| piece.size_bytes)
            .sum();
        self.used_bytes += mapped;
        if segment.is_expandable {
            self.stats.mapped(segment.is_small, mapped);
        } else {
            self.stats.segment_allocated(segment.is_small, mapped, mapped >= self.settings.max_split_bytes);
        }
        let mut last = BlockId::NONE;
        let mut address = segment.address;
        let mut owned = Vec::with_capacity(segment.pieces.len());
        for piece in &segment.pieces {
            let block = if last == BlockId::NONE { head } else { self.piece_of(head, address, piece.size_bytes) };
            if let Some(last) = last.exists() {
                self.blocks.link_after(block, last);
            }
            owned.push(self.adopt_piece(block, piece, segment.pieces.len() > 1));
            (last, address) = (block, address + piece.size_bytes);
        }
        owned
    }

    fn adopt_piece(&mut self, id: BlockId, piece: &AdoptedPiece, is_split: bool) -> Option<BlockId> {
        let small = self.pools[self.blocks[id].pool as usize].small;
        let counts_splits = !self.is_expandable(id) && is_split;
        let block = &mut self.blocks[id];
        block.size = piece.size_bytes;
        block.mapped = piece.state != AdoptedState::Unmapped;
        match piece.state {
            AdoptedState::Allocated { requested_bytes } => {
                block.allocated = true;
                block.requested = requested_bytes;
                let oversize = piece.size_bytes >= self.settings.max_split_bytes;
                self.stats.handed_out(small, piece.size_bytes, requested_bytes, oversize);
                Some(id)
            }
            AdoptedState::Free | AdoptedState::Unmapped => {
                block.allocated = false;
                self.insert(id);
                if counts_splits {
                    self.stats.inactive_split.increase(small, 1);
                    self.stats.inactive_split_bytes.increase(small, piece.size_bytes);
                }
                None
            }
        }
    }
}
