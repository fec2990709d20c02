//! A segment as positions: what is where, in bytes from its first.

use super::{BlockState, Segment};

/// A live block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Live {
    pub(super) start: u64,
    pub(super) end: u64,
    /// The caller's name for it.
    pub(super) name: u32,
}

/// The parts of a segment. Lists are ascending.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    pub(super) is_usable: bool,
    pub(super) is_releasable: bool,
    /// What goes back to the driver as one; `None` if that is the whole segment.
    pub(super) page_bytes: Option<u64>,
    /// Its bytes.
    pub(super) end: u64,
    pub(super) live: Vec<Live>,
    /// Addresses without memory.
    pub(super) unmapped: Ranges,
    /// Whole pages with nothing live in them: they go back to the driver as things are. Empty unless it is expandable.
    pub(super) free_pages: Ranges,
}

impl Layout {
    pub(super) fn new(segment: &Segment) -> Self {
        let page_bytes = segment.page_bytes.map(|page| page.max(1));
        let mut layout = Self {
            is_usable: segment.is_usable,
            is_releasable: segment.is_releasable,
            page_bytes,
            end: 0,
            live: Vec::new(),
            unmapped: Ranges::default(),
            free_pages: Ranges::default(),
        };
        let mut free_from = 0;
        for block in &segment.blocks {
            let start = layout.end;
            let end = start.saturating_add(block.bytes);
            layout.end = end;
            if start == end {
                continue;
            }
            match block.state {
                BlockState::Free => continue,
                BlockState::Live(name) => layout.live.push(Live { start, end, name }),
                BlockState::Unmapped => layout.unmapped.push(start, end),
            }
            layout.add_free_pages(free_from, start);
            free_from = end;
        }
        layout.add_free_pages(free_from, layout.end);
        layout
    }

    fn add_free_pages(&mut self, start: u64, end: u64) {
        if let (Some(page), true) = (self.page_bytes, self.is_releasable) {
            self.free_pages.push(page_at_or_after(start, page), page_at_or_before(end, page));
        }
    }

    /// The stretches with memory: from, to. All of the segment, unless it is expandable.
    pub(super) fn mapped(&self) -> impl Iterator<Item = (u64, u64)> {
        let starts = std::iter::once(0).chain(self.unmapped.0.iter().map(|range| range.end));
        let ends = self.unmapped.0.iter().map(|range| range.start).chain([self.end]);
        starts.zip(ends)
    }

    /// What goes back to the driver as things are.
    pub(super) fn released_bytes(&self) -> u64 {
        match self.page_bytes {
            Some(_) => self.free_pages.bytes_before(u64::MAX),
            None if self.is_releasable && self.live.is_empty() => self.end,
            None => 0,
        }
    }
}

/// The first page boundary at or after `position`.
pub(super) fn page_at_or_after(position: u64, page: u64) -> u64 {
    position.checked_next_multiple_of(page).unwrap_or(u64::MAX)
}

/// The last page boundary at or before `position`.
pub(super) fn page_at_or_before(position: u64, page: u64) -> u64 {
    position / page * page
}

/// Ranges of positions that do not overlap, ascending, and how many bytes they have up to any position.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Ranges(Vec<Range>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Range {
    start: u64,
    end: u64,
    /// Bytes of the ranges before.
    before: u64,
}

impl Ranges {
    /// Adds a range above all others; nothing if it is empty.
    fn push(&mut self, start: u64, end: u64) {
        if start < end {
            let before = self.bytes_before(u64::MAX);
            self.0.push(Range { start, end, before });
        }
    }

    /// Bytes below a position.
    pub(super) fn bytes_before(&self, position: u64) -> u64 {
        let count = match self.0.last() {
            Some(last) if last.start < position => self.0.len(),
            _ => self.0.partition_point(|range| range.start < position),
        };
        let Some(range) = count.checked_sub(1).map(|last| self.0[last]) else {
            return 0;
        };
        range.before + (range.end.min(position) - range.start)
    }

    /// Bytes between two positions.
    pub(super) fn bytes_within(&self, start: u64, end: u64) -> u64 {
        self.bytes_before(end).saturating_sub(self.bytes_before(start))
    }
}
