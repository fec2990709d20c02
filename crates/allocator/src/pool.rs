//! Pools of free blocks: small and large, the default ones and private ones.

use crate::allocator::Streams;
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
    /// Rows of streams that may have free blocks; what is done for all free blocks looks at no other. Many programs have
    /// thousands of streams, few at a time.
    listed: Vec<u32>,
    /// Whether a row of streams is in `listed`.
    is_listed: Vec<bool>,
    /// Parts of expandable segments without memory by address, for each row of streams.
    unmapped: Vec<OrderedBlocks>,
}

impl BlockPool {
    pub(crate) fn new(small: bool, owner: Option<usize>) -> Self {
        Self {
            small,
            owner,
            no_split: false,
            searches: 0,
            free: Vec::new(),
            listed: Vec::new(),
            is_listed: Vec::new(),
            unmapped: Vec::new(),
        }
    }

    /// The free blocks of a stream.
    #[inline]
    pub(crate) fn free(&mut self, stream: u32) -> &mut OrderedBlocks {
        let row = stream as usize;
        if row >= self.is_listed.len() {
            self.is_listed.resize(row + 1, false);
        }
        if !self.is_listed[row] {
            self.is_listed[row] = true;
            self.listed.push(stream);
        }
        of_stream(&mut self.free, stream)
    }

    /// Takes streams without free blocks off the list.
    fn unlist_empty(&mut self) {
        let Self { free, listed, is_listed, .. } = self;
        listed.retain(|&stream| {
            let row = stream as usize;
            is_listed[row] = free.get(row).is_some_and(|blocks| !blocks.is_empty());
            is_listed[row]
        });
    }

    /// The unmapped parts of a stream.
    pub(crate) fn unmapped(&mut self, stream: u32) -> &mut OrderedBlocks {
        of_stream(&mut self.unmapped, stream)
    }

    /// The largest free block of each stream.
    pub(crate) fn largest_free(&self) -> impl Iterator<Item = BlockId> {
        self.listed.iter().filter_map(|&stream| self.free[stream as usize].iter().next_back())
    }

    /// The free blocks, stream after stream by ascending handle.
    pub(crate) fn all_free(&mut self, streams: &Streams) -> Vec<BlockId> {
        self.unlist_empty();
        self.listed.sort_unstable_by_key(|&stream| streams.handle(stream));
        self.listed.iter().flat_map(|&stream| self.free[stream as usize].iter()).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_without_free_blocks_are_looked_at_once() {
        let mut streams = Streams::default();
        let mut pool = BlockPool::new(true, None);
        // Handles descend where rows ascend: blocks come by handle.
        let rows: Vec<u32> = (0..1000).rev().map(|handle| streams.row(handle)).collect();
        let block = |row: u32| (Key(u64::from(row), 0), BlockId::from_index(row as usize));
        for &row in &rows {
            let (key, id) = block(row);
            pool.free(row).insert(key, id);
        }
        let all: Vec<usize> = pool.all_free(&streams).into_iter().map(BlockId::index).collect();
        assert!(all.iter().copied().eq((0..1000).rev()));
        for &row in &rows[3..] {
            let (key, id) = block(row);
            pool.free(row).remove(key, id);
        }
        assert_eq!(pool.largest_free().count(), 3);
        assert_eq!(pool.all_free(&streams).len(), 3);
        assert_eq!(pool.listed.len(), 3);
        let (key, id) = block(700);
        pool.free(700).insert(key, id);
        let all: Vec<usize> = pool.all_free(&streams).into_iter().map(BlockId::index).collect();
        assert_eq!(all, [700, 2, 1, 0]);
    }
}
