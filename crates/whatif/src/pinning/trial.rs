//! The request again, without some of the blocks: the allocator's rules, one after the other.

use hashbrown::HashSet;

use super::layout::{page_at_or_after, page_at_or_before};
use super::{BlockState, Failure, Segment};

/// Whether the request succeeds if these blocks (the caller's names for them) are not there.
///
/// Takes O(blocks): for one answer, such as to what happens without all blocks of a call site.
///
/// # Source
/// PyTorch 2.15, `CUDACachingAllocator.cpp`: `malloc` searches the free blocks (`get_free_block`), asks for new memory
/// (`alloc_block`), returns what is wholly free to the driver (`release_cached_blocks`, which unmaps only whole pages)
/// and asks again. The choice among several places that would do is left out.
pub fn succeeds_without(failure: &Failure, absent: &HashSet<u32>) -> bool {
    let mut spaces: Vec<Space> = failure.segments.iter().map(|segment| Space::new(segment, absent)).collect();
    let size = failure.request.size_bytes;
    if spaces.iter().filter(|space| space.is_usable).any(|space| space.has_free_block(size)) {
        return true;
    }
    if has_new_memory(failure, &spaces, 0) {
        return true;
    }
    let released = spaces.iter_mut().fold(0_u64, |sum, space| sum.saturating_add(space.release()));
    has_new_memory(failure, &spaces, released)
}

/// Whether the driver and the limit grant new memory, after `released` bytes came back.
fn has_new_memory(failure: &Failure, spaces: &[Space], released: u64) -> bool {
    let Failure { request, headroom, .. } = failure;
    if headroom.limit_bytes.is_some_and(|limit| limit.saturating_add(released) < request.segment_bytes) {
        return false;
    }
    let needed = match request.page_bytes {
        None => request.segment_bytes,
        Some(page) => {
            let fresh = page_at_or_after(request.size_bytes, page.max(1));
            let usable = spaces.iter().filter(|space| space.is_usable);
            usable.filter_map(|space| space.least_growth(request.size_bytes)).fold(fresh, u64::min)
        }
    };
    needed <= headroom.device_bytes.saturating_add(released)
}

/// A stretch of a segment between two live blocks.
struct Gap {
    /// Free (true) and unmapped (false) parts: from, to.
    parts: Vec<(bool, u64, u64)>,
}

/// The gaps of a segment.
struct Space {
    is_usable: bool,
    is_releasable: bool,
    page_bytes: Option<u64>,
    end: u64,
    has_live: bool,
    gaps: Vec<Gap>,
}

impl Space {
    fn new(segment: &Segment, absent: &HashSet<u32>) -> Self {
        let mut space = Self {
            is_usable: segment.is_usable,
            is_releasable: segment.is_releasable,
            page_bytes: segment.page_bytes.map(|page| page.max(1)),
            end: 0,
            has_live: false,
            gaps: vec![Gap { parts: Vec::new() }],
        };
        for block in segment.blocks.iter().filter(|block| block.bytes > 0) {
            let start = space.end;
            space.end = start.saturating_add(block.bytes);
            let is_mapped = match block.state {
                BlockState::Live(name) if !absent.contains(&name) => {
                    space.has_live = true;
                    space.gaps.push(Gap { parts: Vec::new() });
                    continue;
                }
                BlockState::Live(_) | BlockState::Free => true,
                BlockState::Unmapped => false,
            };
            if let Some(gap) = space.gaps.last_mut() {
                gap.add(is_mapped, start, space.end);
            }
        }
        space
    }

    fn has_free_block(&self, size: u64) -> bool {
        let mut parts = self.gaps.iter().flat_map(|gap| &gap.parts);
        parts.any(|&(is_mapped, start, end)| is_mapped && end - start >= size)
    }

    /// The fewest bytes that must be mapped for a block of `size` in one of the gaps.
    fn least_growth(&self, size: u64) -> Option<u64> {
        let page = self.page_bytes?;
        self.gaps.iter().filter_map(|gap| gap.growth(size, page)).min()
    }

    /// Returns what is wholly free; its bytes.
    fn release(&mut self) -> u64 {
        if !self.is_releasable {
            return 0;
        }
        match self.page_bytes {
            Some(page) => self.gaps.iter_mut().map(|gap| gap.unmap(page)).fold(0, u64::saturating_add),
            None if self.has_live => 0,
            None => self.end,
        }
    }
}

impl Gap {
    fn add(&mut self, is_mapped: bool, start: u64, end: u64) {
        match self.parts.last_mut() {
            Some(last) if last.0 == is_mapped => last.2 = end,
            _ => self.parts.push((is_mapped, start, end)),
        }
    }

    /// The bytes to map for a block of `size` at the gap's start; `None` if it is too small.
    fn growth(&self, size: u64, page: u64) -> Option<u64> {
        let start = self.parts.first()?.1;
        let end = start.checked_add(size)?;
        if self.parts.last()?.2 < end {
            return None;
        }
        let unmapped = self.parts.iter().filter(|&&(is_mapped, from, _)| !is_mapped && from < end);
        Some(unmapped.map(|&(_, from, to)| page_at_or_after(end, page).min(to) - from).sum())
    }

    /// Unmaps the whole pages of free parts; their bytes.
    fn unmap(&mut self, page: u64) -> u64 {
        let mut released = 0;
        for (is_mapped, start, end) in std::mem::take(&mut self.parts) {
            let (low, high) = (page_at_or_after(start, page), page_at_or_before(end, page));
            if !is_mapped || low >= high {
                self.add(is_mapped, start, end);
                continue;
            }
            released += high - low;
            for (is_mapped, start, end) in [(true, start, low), (false, low, high), (true, high, end)] {
                if start < end {
                    self.add(is_mapped, start, end);
                }
            }
        }
        released
    }
}
