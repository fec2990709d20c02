//! Which few live blocks stood between a request and its memory.
//!
//! A request that failed would have succeeded without some of the blocks that were live: because their place, with what
//! is free beside it, is large enough; or because whole segments (whole pages of an expandable segment) without them
//! return to the driver, which then grants a new one. [`pinning`] finds the fewest such blocks.

mod layout;
mod release;
mod trial;
mod window;

pub use trial::succeeds_without;

use layout::Layout;

/// What failed, and what there was.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Failure {
    /// What was asked for.
    pub request: Request,
    /// What could still be had from the driver, with nothing released.
    pub headroom: Headroom,
    /// All that is reserved on the device, whatever its pool.
    pub segments: Vec<Segment>,
}

/// A request for memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// Bytes of the block, rounded as the allocator rounds them.
    pub size_bytes: u64,
    /// Bytes of the segment that the allocator would ask the driver for. A limit counts these even where fewer or more
    /// bytes are mapped (PyTorch 2.15, `alloc_block` in `CUDACachingAllocator.cpp`).
    pub segment_bytes: u64,
    /// Bytes of a page, if its memory is mapped page by page (`expandable_segments`); `None` if a segment is allocated.
    pub page_bytes: Option<u64>,
}

/// Bytes that can still be reserved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Headroom {
    /// Free on the device.
    pub device_bytes: u64,
    /// Up to the limit that `set_per_process_memory_fraction` set; `None` without one.
    pub limit_bytes: Option<u64>,
}

/// A segment: its blocks, in order of addresses and without gaps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Segment {
    /// The request may get a block in it: pool and stream are the request's.
    pub is_usable: bool,
    /// What is wholly free in it goes back to the driver before the allocator gives up.
    pub is_releasable: bool,
    /// Bytes of a page, counted from the first block, if it is an expandable segment; `None` if it comes and goes as a
    /// whole. An expandable segment is a whole reservation, though a dump shows each mapped part as a segment.
    pub page_bytes: Option<u64>,
    /// Its blocks.
    pub blocks: Vec<Block>,
}

/// A part of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// Its bytes.
    pub bytes: u64,
    /// The value.
    pub state: BlockState,
}

/// What a part of a segment is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockState {
    /// In use, or waiting for its free to complete. The number is the caller's name for it.
    Live(u32),
    /// Free, and backed by memory.
    Free,
    /// Addresses of an expandable segment without memory: whole pages.
    Unmapped,
}

/// The blocks that pinned the memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pinning {
    /// How the request would have succeeded without them.
    pub way: Way,
    /// The caller's names for them, in order of segments and addresses.
    pub blocks: Vec<u32>,
    /// Their bytes.
    pub bytes: u64,
    /// Whether certainly no smaller set does it in one of the two ways.
    ///
    /// Not certain where there are too many ways to release enough to try them all, or where a release takes pages from
    /// under the place where the request would go.
    pub is_smallest: bool,
}

/// How a request would have succeeded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Way {
    /// In their place.
    Window {
        /// Index of the segment.
        segment: usize,
        /// Where the block would begin, in bytes from the segment's first.
        offset_bytes: u64,
    },
    /// In new memory, after memory went back to the driver.
    Release {
        /// Indexes of the segments that would go, or lose pages: without those that are free already. Ascending.
        segments: Vec<usize>,
    },
}

/// The fewest live blocks without which the request would have succeeded; of windows with equally many, the fewest
/// bytes.
///
/// `None` if neither way would do. No blocks at all if the request would succeed as things are. A set that does half of
/// each, making room in an expandable segment and releasing memory elsewhere to map the rest of it, is not looked for.
///
/// Takes O(blocks · log blocks), and for a release at most 2^24 steps more for each try at it.
///
/// ```
/// use highwater_whatif::pinning::{Block, BlockState, Failure, Headroom, Request, Segment, Way, pinning};
///
/// const MIB: u64 = 1 << 20;
/// let block = |mib, state| Block { bytes: mib * MIB, state };
/// let failure = Failure {
///     request: Request { size_bytes: 30 * MIB, segment_bytes: 30 * MIB, page_bytes: None },
///     headroom: Headroom { device_bytes: 4 * MIB, limit_bytes: None },
///     segments: vec![Segment {
///         is_usable: true,
///         is_releasable: true,
///         page_bytes: None,
///         blocks: vec![
///             block(16, BlockState::Live(7)),
///             block(14, BlockState::Free),
///             block(2, BlockState::Live(8)),
///             block(18, BlockState::Free),
///         ],
///     }],
/// };
/// let answer = pinning(&failure).unwrap();
/// assert_eq!(answer.blocks, [8]);
/// assert_eq!(answer.way, Way::Window { segment: 0, offset_bytes: 16 * MIB });
/// ```
pub fn pinning(failure: &Failure) -> Option<Pinning> {
    let layouts: Vec<Layout> = failure.segments.iter().map(Layout::new).collect();
    let window = window::best(failure, &layouts);
    let most = window.as_ref().map_or(usize::MAX, |window| window.blocks.len());
    if most == 0 {
        return window;
    }
    let (release, is_certain) = release::best(failure, &layouts, most);
    let size = |answer: &Pinning| (answer.blocks.len(), answer.bytes);
    match (window, release) {
        (Some(window), Some(release)) if size(&release) < size(&window) => Some(release),
        (Some(window), _) => Some(Pinning { is_smallest: is_certain, ..window }),
        (None, release) => release,
    }
}
