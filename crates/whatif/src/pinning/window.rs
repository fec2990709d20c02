//! Room in one place: the live blocks that lie where the request could go.

use super::layout::{Layout, Live, page_at_or_after, page_at_or_before};
use super::{Failure, Pinning, Way};

/// The smallest set of blocks in whose place, with what is free around it, the request fits.
pub(super) fn best(failure: &Failure, layouts: &[Layout]) -> Option<Pinning> {
    let released = layouts.iter().fold(0_u64, |sum, layout| sum.saturating_add(layout.released_bytes()));
    let size = failure.request.size_bytes;
    let mut best: Option<(usize, Place)> = None;
    for (segment, layout) in layouts.iter().enumerate().filter(|(_, layout)| layout.is_usable) {
        let in_memory = layout.mapped().flat_map(|(low, high)| Places::new(layout, low, high, size));
        let growing =
            Places::new(layout, 0, layout.end, size).filter(|place| can_grow(failure, layout, released, place));
        for place in in_memory.chain(growing) {
            if best.is_none_or(|(_, best)| (place.count, place.bytes) < (best.count, best.bytes)) {
                best = Some((segment, place));
            }
        }
    }
    best.map(|(segment, place)| Pinning {
        way: Way::Window { segment, offset_bytes: place.start },
        blocks: layouts[segment].live[place.first..place.first + place.count].iter().map(|live| live.name).collect(),
        bytes: place.bytes,
        is_smallest: true,
    })
}

/// A place for the request in a segment, and the live blocks in it.
#[derive(Clone, Copy, Debug)]
struct Place {
    start: u64,
    end: u64,
    /// Index of the first live block at or after its start.
    first: usize,
    /// How many live blocks begin before its end.
    count: usize,
    /// Their bytes.
    bytes: u64,
}

/// The places in a stretch of a segment that may need the fewest blocks gone.
///
/// They begin where a live block ends, or the stretch begins: any other place can be moved down to one of these, and
/// meets no other live block there.
struct Places<'a> {
    /// The live blocks of the segment up to the end of the stretch.
    live: &'a [Live],
    low: u64,
    high: u64,
    size: u64,
    /// The next place begins where the live block before this one ends.
    next: usize,
    /// The first live block beyond the last place.
    beyond: usize,
    /// Bytes of the live blocks from one to the other.
    bytes: u64,
}

impl<'a> Places<'a> {
    fn new(layout: &'a Layout, low: u64, high: u64, size: u64) -> Self {
        let live = &layout.live[..layout.live.partition_point(|live| live.start < high)];
        let next = live.partition_point(|live| live.start < low);
        Self { live, low, high, size, next, beyond: next, bytes: 0 }
    }
}

impl Iterator for Places<'_> {
    type Item = Place;

    fn next(&mut self) -> Option<Place> {
        let first = self.next;
        if first > self.live.len() {
            return None;
        }
        let start = first.checked_sub(1).map_or(self.low, |before| self.live[before].end.max(self.low));
        let end = start.checked_add(self.size).filter(|&end| end <= self.high)?;
        while let Some(block) = self.live.get(self.beyond).filter(|block| block.start < end) {
            self.bytes += block.end - block.start;
            self.beyond += 1;
        }
        let place = Place { start, end, first, count: self.beyond - first, bytes: self.bytes };
        self.next += 1;
        if place.count > 0 {
            self.bytes -= self.live[first].end - self.live[first].start;
        } else {
            self.beyond = self.next;
        }
        Some(place)
    }
}

/// Whether a place of which a part has no memory would be given it.
///
/// Such a place is only used from where the live block before it ends.
fn can_grow(failure: &Failure, layout: &Layout, released: u64, place: &Place) -> bool {
    let Failure { request, headroom, .. } = failure;
    let (Some(page), true) = (layout.page_bytes, request.page_bytes.is_some()) else {
        return false;
    };
    let fits = |needed: u64, released: u64| {
        needed <= headroom.device_bytes.saturating_add(released)
            && headroom.limit_bytes.is_none_or(|limit| request.segment_bytes <= limit.saturating_add(released))
    };
    // At first nothing is released.
    let last_page = page_at_or_after(place.end, page);
    let unmapped = layout.unmapped.bytes_within(place.start, last_page);
    if unmapped == 0 || fits(unmapped, 0) {
        return unmapped > 0;
    }
    // Then all that is free is.
    if !layout.is_releasable {
        return fits(unmapped, released);
    }
    // Here too, up to the next block; and what the request needs of that is mapped again.
    let beyond = layout.live.get(place.first + place.count).map_or(layout.end, |block| block.start);
    let (low, high) = (page_at_or_after(place.start, page), page_at_or_before(beyond, page));
    let here = high.saturating_sub(low).saturating_sub(layout.unmapped.bytes_within(low, high));
    let elsewhere = released.saturating_sub(layout.free_pages.bytes_within(place.start, beyond));
    fits(last_page.min(high).saturating_sub(low), elsewhere.saturating_add(here))
}
