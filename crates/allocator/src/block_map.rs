//! What lies where: the segments and blocks of a snapshot.

use crate::allocator::Allocator;
use crate::block::{Block, BlockId};
use crate::device::Device;
use crate::trace::Observer;

/// The state of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockState {
    /// Handed out.
    Allocated,
    /// Freed by its owner, and other streams are not done with it.
    AwaitingFree,
    /// Free.
    Inactive,
}

/// A block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MappedBlock {
    /// First byte.
    pub address: u64,
    /// Bytes, as rounded.
    pub size_bytes: u64,
    /// Bytes as asked for; 0 if inactive.
    pub requested_bytes: u64,
    /// Whether it is in use.
    pub state: BlockState,
}

/// A segment: of an expandable one, a run of mapped pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MappedSegment {
    /// First byte.
    pub address: u64,
    /// Bytes.
    pub total_bytes: u64,
    /// The stream.
    pub stream: u64,
    /// The private pool; 0 is the default one.
    pub pool: u64,
    /// Of the large pool.
    pub is_large: bool,
    /// Expandable.
    pub is_expandable: bool,
    /// Its blocks by address, without a gap.
    pub blocks: Vec<MappedBlock>,
}

/// A whole segment, or the whole reservation of an expandable one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Region {
    /// The stream.
    pub stream: u64,
    /// The private pool; 0 is the default one.
    pub pool: u64,
    /// Of the large pool.
    pub is_large: bool,
    /// The unit of mapping of an expandable one.
    pub page_bytes: Option<u64>,
    /// Its parts by address, without a gap; the state is `None` where no memory is mapped.
    pub parts: Vec<(MappedBlock, Option<BlockState>)>,
}

impl<D: Device, O: Observer> Allocator<D, O> {
    /// Everything that is reserved, by address, parts without memory included.
    pub fn regions(&self) -> Vec<Region> {
        let heads = self.blocks.iter().filter(|(_, block)| block.prev == BlockId::NONE);
        let mut regions: Vec<Region> = heads.map(|(head, _)| self.region(head)).collect();
        regions.sort_unstable_by_key(|region| region.parts[0].0.address);
        regions
    }

    fn region(&self, head: BlockId) -> Region {
        let run = std::iter::successors(Some(head), |&at| self.blocks[at].next.exists());
        let part = |at: BlockId| {
            let block = mapped_block(&self.blocks[at]);
            (block, self.blocks[at].mapped.then_some(block.state))
        };
        let Block { stream, pool, segment, .. } = self.blocks[head];
        let page = self.segments[segment as usize].page;
        Region {
            stream: self.streams.handle(stream),
            pool: self.pool_id(pool as usize),
            is_large: !self.pools[pool as usize].small,
            page_bytes: (page > 0).then_some(page),
            parts: run.map(part).collect(),
        }
    }

    /// The segments by address.
    pub fn block_map(&self) -> Vec<MappedSegment> {
        let is_mapped = |id: BlockId| id.exists().is_some_and(|id| self.blocks[id].mapped);
        let heads = self.blocks.iter().filter(|(_, block)| block.mapped && !is_mapped(block.prev));
        let mut segments: Vec<MappedSegment> = heads.map(|(head, _)| self.mapped_segment(head)).collect();
        segments.sort_unstable_by_key(|segment| segment.address);
        segments
    }

    fn mapped_segment(&self, head: BlockId) -> MappedSegment {
        let run = std::iter::successors(Some(head), |&at| self.blocks[at].next.exists());
        let run = run.take_while(|&at| self.blocks[at].mapped);
        let blocks: Vec<MappedBlock> = run.map(|at| mapped_block(&self.blocks[at])).collect();
        let Block { address, stream, pool, .. } = self.blocks[head];
        MappedSegment {
            address,
            total_bytes: blocks.iter().map(|block| block.size_bytes).sum(),
            stream: self.streams.handle(stream),
            pool: self.pool_id(pool as usize),
            is_large: !self.pools[pool as usize].small,
            is_expandable: self.is_expandable(head),
            blocks,
        }
    }
}

fn mapped_block(block: &Block) -> MappedBlock {
    let state = if block.allocated {
        BlockState::Allocated
    } else if block.is_idle() {
        BlockState::Inactive
    } else {
        BlockState::AwaitingFree
    };
    let requested_bytes = if state == BlockState::Inactive { 0 } else { block.requested };
    MappedBlock { address: block.address, size_bytes: block.size, requested_bytes, state }
}
