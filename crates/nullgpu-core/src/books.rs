//! Where the driver puts memory: ranges of addresses, and how much of a card is taken.
//!
//! Address space is taken in chunks of whole 32 MiB, each new one in the highest gap; before that, the lowest hole of a chunk
//! that fits is filled. Sizes are rounded up to 2 MiB.
//!
//! # Source
//! Read off recordings made on an H200 (driver 580, CUDA 13.0): of the 40 recordings that a dry run repeats to the event,
//! three were used to find the rule.

use std::collections::BTreeMap;

/// What sizes are rounded up to.
pub(crate) const GRANULARITY: u64 = 2 << 20;
/// What address space is taken in.
const CHUNK: u64 = 32 << 20;

/// The memory of one device.
pub(crate) struct Books {
    /// The addresses that it may use.
    start: u64,
    end: u64,
    /// By their base.
    chunks: BTreeMap<u64, Chunk>,
    /// Bytes that are taken, wherever they lie.
    used: u64,
}

struct Chunk {
    size: u64,
    /// Sizes by base.
    ranges: BTreeMap<u64, u64>,
    /// No hole is larger: what need not be looked through again.
    hole_max: u64,
}

impl Books {
    pub(crate) fn new(start: u64, end: u64) -> Self {
        Books { start, end, chunks: BTreeMap::new(), used: 0 }
    }

    pub(crate) fn used(&self) -> u64 {
        self.used
    }

    /// Takes memory that has its addresses elsewhere, if no more than `capacity` is then taken.
    pub(crate) fn take(&mut self, size: u64, capacity: u64) -> bool {
        let fits = self.used.checked_add(size).is_some_and(|used| used <= capacity);
        if fits {
            self.used += size;
        }
        fits
    }

    /// Gives back what was taken by [`Books::take`].
    pub(crate) fn give(&mut self, size: u64) {
        self.used = self.used.saturating_sub(size);
    }

    /// Memory for `size` bytes, and where it lies; nothing if more than `capacity` would be taken then.
    pub(crate) fn allocate(&mut self, size: u64, capacity: u64) -> Option<u64> {
        let size = size.max(1).checked_next_multiple_of(GRANULARITY)?;
        if !self.take(size, capacity) {
            return None;
        }
        let address = self.fill_hole(size).or_else(|| self.open_chunk(size));
        if address.is_none() {
            self.give(size);
        }
        address
    }

    fn fill_hole(&mut self, size: u64) -> Option<u64> {
        for (&base, chunk) in &mut self.chunks {
            if chunk.hole_max < size {
                continue;
            }
            let (mut at, mut hole_max) = (base, 0);
            for (&range, &length) in &chunk.ranges {
                if range - at >= size {
                    chunk.ranges.insert(at, size);
                    return Some(at);
                }
                hole_max = hole_max.max(range - at);
                at = range + length;
            }
            if base + chunk.size - at >= size {
                chunk.ranges.insert(at, size);
                return Some(at);
            }
            chunk.hole_max = hole_max.max(base + chunk.size - at);
        }
        None
    }

    fn open_chunk(&mut self, size: u64) -> Option<u64> {
        let length = size.checked_next_multiple_of(CHUNK)?;
        let mut top = self.end;
        let mut found = None;
        for (&base, chunk) in self.chunks.iter().rev() {
            if top - (base + chunk.size) >= length {
                found = Some(top - length);
                break;
            }
            top = base;
        }
        let base = match found {
            Some(base) => base,
            None => top.checked_sub(length).filter(|&base| base >= self.start)?,
        };
        let chunk = Chunk { size: length, ranges: BTreeMap::from([(base, size)]), hole_max: length - size };
        self.chunks.insert(base, chunk);
        Some(base)
    }

    /// Gives back what lies at an address; false if nothing begins there.
    pub(crate) fn free(&mut self, address: u64) -> bool {
        let Some((&base, chunk)) = self.chunks.range_mut(..=address).next_back() else { return false };
        let Some(size) = chunk.ranges.remove(&address) else { return false };
        chunk.hole_max = chunk.size;
        if chunk.ranges.is_empty() {
            self.chunks.remove(&base);
        }
        self.give(size);
        true
    }

    /// The base and the size of what lies at an address.
    pub(crate) fn range_of(&self, address: u64) -> Option<(u64, u64)> {
        let (_, chunk) = self.chunks.range(..=address).next_back()?;
        let (&base, &size) = chunk.ranges.range(..=address).next_back()?;
        (address - base < size).then_some((base, size))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;
    const TOP: u64 = 1 << 40;

    fn books() -> Books {
        Books::new(0, TOP)
    }

    #[test]
    fn chunks_go_down_from_the_top_and_holes_are_filled_from_below() {
        let mut books = books();
        let mut allocate = |mib: u64| books.allocate(mib * MIB, u64::MAX).map(|address| (TOP - address) / MIB);
        assert_eq!(allocate(2), Some(32), "a chunk of 32 MiB at the top");
        assert_eq!(allocate(20), Some(30), "the same chunk");
        assert_eq!(allocate(20), Some(64), "the next one below");
        assert_eq!(allocate(2), Some(44), "the lowest hole: behind the 20 MiB of the lower chunk");
        assert_eq!(allocate(100), Some(64 + 128), "whole chunks");
    }

    #[test]
    fn what_is_freed_is_used_again_and_an_empty_chunk_goes() {
        let mut books = books();
        let first = books.allocate(2 * MIB, u64::MAX).unwrap();
        let second = books.allocate(2 * MIB, u64::MAX).unwrap();
        assert!(books.free(first));
        assert!(!books.free(first), "it is not there any more");
        assert_eq!(books.allocate(1, u64::MAX), Some(first));
        assert_eq!(books.used(), 4 * MIB);
        assert!(books.free(first) && books.free(second));
        assert_eq!((books.used(), books.chunks.len()), (0, 0));
    }

    #[test]
    fn a_full_card_gives_nothing_and_takes_nothing() {
        let mut books = books();
        assert!(books.allocate(4 * MIB, 4 * MIB).is_some());
        assert_eq!(books.allocate(1, 4 * MIB), None);
        assert_eq!(books.allocate(u64::MAX, u64::MAX), None, "rounding up must not wrap");
        assert_eq!(books.used(), 4 * MIB);
        let mut narrow = Books::new(TOP - 32 * MIB, TOP);
        assert!(narrow.allocate(32 * MIB, u64::MAX).is_some());
        assert_eq!(narrow.allocate(MIB, u64::MAX), None, "no addresses left");
        assert_eq!(narrow.used(), 32 * MIB);
    }

    #[test]
    fn an_address_within_is_found() {
        let mut books = books();
        let base = books.allocate(3 * MIB, u64::MAX).unwrap();
        assert_eq!(books.range_of(base + 5), Some((base, 4 * MIB)));
        assert_eq!(books.range_of(base + 4 * MIB), None);
        assert_eq!(books.range_of(0), None);
    }
}
