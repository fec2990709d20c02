//! The state at the dump: segments and the blocks that tile them.
//!
//! Rows, not columns: a snapshot has thousands of segments where it has millions of entries, and every reader wants
//! the whole row.

use std::ops::Range;

use crate::{PoolId, StackId, StreamId};

/// Which half of a pool a segment belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SegmentType {
    /// Blocks of up to 1 MiB, in segments of 2 MiB.
    Small,
    /// Everything larger.
    Large,
    /// The file does not say (profiler-made snapshots).
    Unknown,
}

impl SegmentType {
    /// The word in the file; empty for [`SegmentType::Unknown`].
    pub const fn name(self) -> &'static str {
        match self {
            Self::Small => "small",
            Self::Large => "large",
            Self::Unknown => "",
        }
    }
}

/// One `cudaMalloc`, or one contiguous mapped run of an expandable segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// CUDA ordinal; -1 for pinned host memory.
    pub device: i32,
    /// First byte.
    pub address: u64,
    /// Bytes from the driver: the sum of the blocks.
    pub total_bytes: u64,
    /// The owning stream.
    pub stream: StreamId,
    /// Small or large.
    pub segment_type: SegmentType,
    /// The pool: [`PoolId::DEFAULT`], or a private one.
    pub pool: PoolId,
    /// Whether it can grow.
    pub is_expandable: bool,
    /// The stack that created it, often empty: see `spec/snapshot-format.md` section 4.1.
    pub stack: StackId,
    /// Its blocks in [`Snapshot::blocks`](crate::Snapshot::blocks), by address.
    pub blocks: Range<u32>,
}

impl Segment {
    /// Its rows in the block table.
    pub fn block_rows(&self) -> Range<usize> {
        self.blocks.start as usize..self.blocks.end as usize
    }

    /// One past the last byte.
    pub fn end(&self) -> u64 {
        self.address.saturating_add(self.total_bytes)
    }
}

/// Who has a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BlockState {
    /// A tensor owns it.
    ActiveAllocated,
    /// Its owner freed it; another stream may still use it (`record_stream`).
    ActiveAwaitingFree,
    /// Free, in the cache.
    Inactive,
}

impl BlockState {
    /// The word in the file; both spellings of the second state are read, this one is written.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ActiveAllocated => "active_allocated",
            Self::ActiveAwaitingFree => "active_pending_free",
            Self::Inactive => "inactive",
        }
    }

    /// Whether the block counts as active.
    pub const fn is_active(self) -> bool {
        !matches!(self, Self::Inactive)
    }
}

/// A piece of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// First byte.
    pub address: u64,
    /// Bytes as rounded by the allocator.
    pub size_bytes: u64,
    /// Bytes as asked for; stale in inactive blocks.
    pub requested_bytes: u64,
    /// Who has it.
    pub state: BlockState,
    /// The stack of the allocation that owns it.
    pub stack: StackId,
}
