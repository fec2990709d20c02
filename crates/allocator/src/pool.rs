//! Pools of free blocks: small and large, the default ones and private ones.

use crate::block::BlockId;
use crate::ordered::{Key, OrderedBlocks};

/// Row of the default pool's small half.
pub(crate) const DEFAULT_SMALL: usize = 0;
/// Row of the default pool's large half.
pub(crate) const DEFAULT_LARGE: usize = 1;

/// The small or the large half of a pool.
#[derive(Clone, Debug)]
pub(crate) struct BlockPool {
    pub(crate) small: bool,
    /// Row of the private pool it belongs to; `None` for the default pool.
    pub(crate) owner: Option<usize>,
    /// Its blocks are whole segments.
    pub(crate) no_split: bool,
    /// Searches so far, counted while the garbage collector is on.
    pub(crate) searches: u64,
    /// Free blocks by size, for each row of streams.
    free: Vec<OrderedBlocks>,
    /// Parts of expandable segments without memory by address, for each row of streams.
    unmapped: Vec<OrderedBlocks>,
}

impl BlockPool {
    pub(crate) fn new(small: bool, owner: Option<usize>) -> Self {
        Self { small, owner, no_split: false, searches: 0, free: Vec::new(), unmapped: Vec::new() }
    }

    /// The free blocks of a stream.
    #[inline]
    pub(crate) fn free(&mut self, stream: u32) -> &mut OrderedBlocks {
        of_stream(&mut self.free, stream)
    }

    /// The unmapped parts of a stream.
    pub(crate) fn unmapped(&mut self, stream: u32) -> &mut OrderedBlocks {
        of_stream(&mut self.unmapped, stream)
    }

    /// The largest free block of each stream.
    pub(crate) fn largest_free(&self) -> impl Iterator<Item = BlockId> {
        self.free.iter().filter_map(|blocks| blocks.iter().next_back())
    }

    /// The free blocks, stream after stream in the order of `streams`.
    pub(crate) fn all_free(&self, streams: &[u32]) -> Vec<BlockId> {
        let sets = streams.iter().filter_map(|&stream| self.free.get(stream as usize));
        sets.flat_map(OrderedBlocks::iter).collect()
    }
}

#[inline]
fn of_stream(sets: &mut Vec<OrderedBlocks>, stream: u32) -> &mut OrderedBlocks {
    let row = stream as usize;
    if row >= sets.len() {
        sets.resize_with(row + 1, OrderedBlocks::default);
    }
    &mut sets[row]
}

/// The key of an unmapped part.
pub(crate) fn by_address(address: u64) -> Key {
    Key(address, 0)
}

/// A pool of a CUDA graph or a `MemPool`.
///
/// # Source
/// `spec/caching-allocator.md` section 14.
#[derive(Clone, Debug)]
pub(crate) struct PrivatePool {
    pub(crate) id: u64,
    /// Graphs, `MemPool` objects and contexts that use it: at none, its cached memory can be released.
    pub(crate) uses: u64,
    /// Calls that took memory from the driver less those that returned some: at none, a released pool is deleted.
    pub(crate) driver_allocations: u64,
    /// Rows of its halves.
    pub(crate) small: usize,
    pub(crate) large: usize,
}
