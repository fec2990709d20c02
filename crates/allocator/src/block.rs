//! Blocks: the pieces of a segment.

/// The number of a block. It is free again when the block merges into another or its segment is released.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BlockId(u32);

impl BlockId {
    pub(crate) const NONE: Self = Self(u32::MAX);

    pub(crate) fn from_index(index: usize) -> Self {
        Self(u32::try_from(index).expect("fewer than 2^32 blocks"))
    }

    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }

    /// `None` for [`BlockId::NONE`].
    pub(crate) fn exists(self) -> Option<Self> {
        (self != Self::NONE).then_some(self)
    }
}

/// A piece of a segment.
///
/// # Source
/// `spec/caching-allocator.md` section 2; PyTorch `struct Block`.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(crate) struct Block {
    /// First byte.
    pub(crate) address: u64,
    /// Bytes; 0 where the row stands for no block.
    pub(crate) size: u64,
    /// Bytes as asked for, of an active block.
    pub(crate) requested: u64,
    /// The pool's number of searches when the block became free: its age for the garbage collector.
    pub(crate) searches_before: u64,
    /// Neighbours in the segment.
    pub(crate) prev: BlockId,
    pub(crate) next: BlockId,
    /// Row of the allocator's segments.
    pub(crate) segment: u32,
    /// Row of the allocator's block pools.
    pub(crate) pool: u32,
    /// Row of the allocator's streams.
    pub(crate) stream: u32,
    /// Age of the block object, where it decides between equal sizes (torch 2.12).
    pub(crate) counter: u32,
    /// Events that are to complete before a freed block returns to its pool.
    pub(crate) pending_events: u32,
    pub(crate) allocated: bool,
    /// Backed by memory; only parts of an expandable segment are not.
    pub(crate) mapped: bool,
    /// Used on other streams since it was handed out.
    pub(crate) has_uses: bool,
    /// Of an expandable segment.
    pub(crate) expandable: bool,
}

impl Block {
    /// Whether it has neighbours in its segment.
    pub(crate) fn is_split(&self) -> bool {
        self.prev != BlockId::NONE || self.next != BlockId::NONE
    }

    /// Whether nobody holds it or waits for it.
    pub(crate) fn is_idle(&self) -> bool {
        !self.allocated && self.pending_events == 0 && !self.has_uses
    }

    pub(crate) fn end(&self) -> u64 {
        self.address + self.size
    }
}

/// The table of blocks; rows are used again.
#[derive(Clone, Debug, Default)]
pub(crate) struct Blocks {
    rows: Vec<Block>,
    vacant: Vec<BlockId>,
}

impl Blocks {
    pub(crate) fn add(&mut self, block: Block) -> BlockId {
        match self.vacant.pop() {
            Some(id) => {
                self.rows[id.index()] = block;
                id
            }
            None => {
                self.rows.push(block);
                BlockId::from_index(self.rows.len() - 1)
            }
        }
    }

    pub(crate) fn remove(&mut self, id: BlockId) {
        self.rows[id.index()].size = 0;
        self.vacant.push(id);
    }

    /// Cuts bytes off the front of a block: a block like it of their own.
    #[inline]
    pub(crate) fn cut_front(&mut self, id: BlockId, size: u64, counter: u32) -> BlockId {
        let whole = self[id];
        let front = self.add(Block { size, counter, next: id, ..whole });
        let rest = &mut self[id];
        rest.address += size;
        rest.size -= size;
        rest.prev = front;
        if let Some(prev) = whole.prev.exists() {
            self[prev].next = front;
        }
        front
    }

    /// Links `id`, new, in front of `other`.
    pub(crate) fn link_before(&mut self, id: BlockId, other: BlockId) {
        let prev = std::mem::replace(&mut self[other].prev, id);
        (self[id].prev, self[id].next) = (prev, other);
        if let Some(prev) = prev.exists() {
            self[prev].next = id;
        }
    }

    /// Links `id`, new, behind `other`.
    pub(crate) fn link_after(&mut self, id: BlockId, other: BlockId) {
        let next = std::mem::replace(&mut self[other].next, id);
        (self[id].prev, self[id].next) = (other, next);
        if let Some(next) = next.exists() {
            self[next].prev = id;
        }
    }

    /// Every block, in no order that means anything.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (BlockId, &Block)> {
        let rows = self.rows.iter().enumerate().filter(|(_, block)| block.size > 0);
        rows.map(|(index, block)| (BlockId::from_index(index), block))
    }
}

impl std::ops::Index<BlockId> for Blocks {
    type Output = Block;

    #[inline]
    fn index(&self, id: BlockId) -> &Block {
        &self.rows[id.index()]
    }
}

impl std::ops::IndexMut<BlockId> for Blocks {
    #[inline]
    fn index_mut(&mut self, id: BlockId) -> &mut Block {
        &mut self.rows[id.index()]
    }
}

const _: () = assert!(size_of::<Block>() == 64, "a block fills one cache line");
