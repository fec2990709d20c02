//! Where the driver puts memory: ranges of addresses, and how much of a card is taken.
//!
//! Address space is taken in chunks of whole 32 MiB, each new one at the top of the highest gap that has 32 MiB more than it needs.
//! Before that, the newest chunk with a hole that is large enough gives the smallest such hole. A chunk with nothing in it goes. Sizes
//! are rounded up to 2 MiB.
//!
//! # Source
//! Read off an H200 (driver 580, CUDA 13.0): 50,000 calls of `cudaMalloc` and `cudaFree` at random, in four processes that did nothing
//! else, were all answered so; `testdata/driver/addresses.txt` has 4,000 of them.

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
    /// By how many were made before them.
    chunks: BTreeMap<u64, Chunk>,
    /// How many were made before the chunk that begins there.
    by_base: BTreeMap<u64, u64>,
    made: u64,
    /// Bytes that are taken, wherever they lie.
    used: u64,
}

struct Chunk {
    base: u64,
    size: u64,
    /// Sizes by base.
    ranges: BTreeMap<u64, u64>,
    /// No hole is larger: what need not be looked through again.
    hole_max: u64,
}

impl Chunk {
    /// Size and base of what is free, from below.
    fn holes(&self) -> impl Iterator<Item = (u64, u64)> {
        let ends = self.ranges.iter().map(|(&base, &size)| (base, base + size));
        let end = self.base + self.size;
        ends.chain([(end, end)]).scan(self.base, |free, (base, end)| {
            let hole = (base - *free, *free);
            *free = end;
            Some(hole)
        })
    }

    /// Takes the smallest hole that is large enough, the lowest of equal ones.
    fn fill(&mut self, size: u64) -> Option<u64> {
        if self.hole_max < size {
            return None;
        }
        let smallest = self.holes().filter(|&(length, _)| length >= size).min();
        match smallest {
            Some((_, base)) => _ = self.ranges.insert(base, size),
            None => self.hole_max = self.holes().map(|(length, _)| length).max().unwrap_or(0),
        }
        smallest.map(|(_, base)| base)
    }
}

impl Books {
    pub(crate) fn new(start: u64, end: u64) -> Self {
        Books { start, end, chunks: BTreeMap::new(), by_base: BTreeMap::new(), made: 0, used: 0 }
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
        let address = self.hold(size);
        if address.is_none() {
            self.give(size);
        }
        address
    }

    /// Addresses for `size` bytes, which do not count as taken: the driver's own, too, come from here.
    pub(crate) fn hold(&mut self, size: u64) -> Option<u64> {
        let size = size.checked_next_multiple_of(GRANULARITY)?;
        let filled = self.chunks.values_mut().rev().find_map(|chunk| chunk.fill(size));
        filled.or_else(|| self.open_chunk(size))
    }

    fn open_chunk(&mut self, size: u64) -> Option<u64> {
        let length = size.checked_next_multiple_of(CHUNK)?;
        let base = self.place(length)?;
        let chunk = Chunk { base, size: length, ranges: BTreeMap::from([(base, size)]), hole_max: length - size };
        self.chunks.insert(self.made, chunk);
        self.by_base.insert(base, self.made);
        self.made += 1;
        Some(base)
    }

    /// Where a chunk goes. The driver asks the system for what it may lose by aligning it, too.
    fn place(&self, length: u64) -> Option<u64> {
        let mut top = self.end;
        for (&base, made) in self.by_base.iter().rev() {
            if top - (base + self.chunks[made].size) >= length.checked_add(CHUNK)? {
                break;
            }
            top = base;
        }
        top.checked_sub(length).filter(|&base| base >= self.start)
    }

    /// Gives back what lies at an address; false if nothing begins there.
    pub(crate) fn free(&mut self, address: u64) -> bool {
        let size = self.let_go(address);
        self.give(size.unwrap_or(0));
        size.is_some()
    }

    /// Gives back what [`Books::hold`] gave, and says how large it is; nothing if nothing begins there.
    pub(crate) fn let_go(&mut self, address: u64) -> Option<u64> {
        let (&base, &made) = self.by_base.range(..=address).next_back()?;
        let chunk = self.chunks.get_mut(&made)?;
        let size = chunk.ranges.remove(&address)?;
        chunk.hole_max = chunk.size;
        if chunk.ranges.is_empty() {
            self.chunks.remove(&made);
            self.by_base.remove(&base);
        }
        Some(size)
    }

    /// The base and the size of what lies at an address.
    pub(crate) fn range_of(&self, address: u64) -> Option<(u64, u64)> {
        let (_, made) = self.by_base.range(..=address).next_back()?;
        let (&base, &size) = self.chunks.get(made)?.ranges.range(..=address).next_back()?;
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
    fn chunks_go_down_from_the_top_and_the_newest_with_a_hole_is_filled() {
        let mut books = books();
        let mut allocate = |mib: u64| books.allocate(mib * MIB, u64::MAX).map(|address| (TOP - address) / MIB);
        assert_eq!(allocate(2), Some(32), "a chunk of 32 MiB at the top");
        assert_eq!(allocate(20), Some(30), "the same chunk");
        assert_eq!(allocate(20), Some(64), "the next one below");
        assert_eq!(allocate(2), Some(44), "behind the 20 MiB of the newer chunk");
        assert_eq!(allocate(100), Some(64 + 128), "whole chunks");
    }

    #[test]
    fn the_smallest_hole_is_taken_and_a_gap_needs_room_to_align() {
        let mut books = books();
        let mut allocate = |mib: u64| books.allocate(mib * MIB, u64::MAX).unwrap();
        let [first, _, second, _] = [10, 2, 6, 14].map(&mut allocate);
        let [middle, lowest] = [32, 32].map(&mut allocate);
        assert!(books.free(first) && books.free(second));
        assert_eq!(books.allocate(4 * MIB, u64::MAX), Some(second), "6 MiB, though 10 lie below");
        assert!(books.free(middle));
        assert_eq!(books.allocate(32 * MIB, u64::MAX), Some(lowest - 32 * MIB), "not into the gap of just 32 MiB");
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
        assert_eq!((books.used(), books.chunks.len(), books.by_base.len()), (0, 0, 0));
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
