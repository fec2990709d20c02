//! Where the driver puts memory.
//!
//! Address space is taken in chunks of whole 32 MiB, each new one at the top of the highest gap that has 32 MiB more than it needs.
//! Before that, the newest chunk with a hole that is large enough gives the smallest such hole. A chunk with nothing in it goes. Sizes
//! are rounded up to 2 MiB.
//!
//! # Source
//! Read off an H200 (driver 580, CUDA 13.0): 50,000 calls of `cudaMalloc` and `cudaFree` at random, in four processes that did nothing
//! else, were all answered so; `testdata/driver/addresses.txt` has 4,000 of them.

use std::collections::BTreeMap;

/// What the driver rounds sizes up to, in bytes; mapped memory, too, comes in units of this.
pub const GRANULARITY: u64 = 2 << 20;
/// What reservations of addresses without memory (`cuMemAddressReserve`) begin at a multiple of here, each above the one before.
///
/// # Source
/// Expandable segments of recordings from an H200: they lie far below what `cudaMalloc` gives, at 0x3_0200_0000 and
/// 0x2a_5400_0000 for reservations of 157 GiB. How the driver aligns them was not measured.
pub const RESERVATION_ALIGNMENT: u64 = 1 << 30;
/// What address space is taken in.
const CHUNK: u64 = 32 << 20;

/// The addresses of one device in one process. How much memory there is, others know.
#[derive(Clone, Debug)]
pub struct DriverAddressSpace {
    /// The addresses that it may use.
    start: u64,
    end: u64,
    /// By how many were made before them.
    chunks: BTreeMap<u64, Chunk>,
    /// How many were made before the chunk that begins there.
    by_base: BTreeMap<u64, u64>,
    made: u64,
}

#[derive(Clone, Debug)]
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

impl DriverAddressSpace {
    /// Nothing lies there yet. `end` is the first address behind it.
    pub fn new(start: u64, end: u64) -> Self {
        DriverAddressSpace { start, end, chunks: BTreeMap::new(), by_base: BTreeMap::new(), made: 0 }
    }

    /// Addresses for `bytes`, rounded up to [`GRANULARITY`]; `None` if there are none left. For 0 bytes there is a unit, too.
    pub fn take(&mut self, bytes: u64) -> Option<u64> {
        let size = bytes.max(1).checked_next_multiple_of(GRANULARITY)?;
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

    /// Gives back what lies at an address, and says how large it is; nothing if nothing begins there.
    pub fn give_back(&mut self, address: u64) -> Option<u64> {
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
    pub fn range_of(&self, address: u64) -> Option<(u64, u64)> {
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

    fn space() -> DriverAddressSpace {
        DriverAddressSpace::new(0, TOP)
    }

    #[test]
    fn chunks_go_down_from_the_top_and_the_newest_with_a_hole_is_filled() {
        let mut space = space();
        let mut allocate = |mib: u64| space.take(mib * MIB).map(|address| (TOP - address) / MIB);
        assert_eq!(allocate(2), Some(32), "a chunk of 32 MiB at the top");
        assert_eq!(allocate(20), Some(30), "the same chunk");
        assert_eq!(allocate(20), Some(64), "the next one below");
        assert_eq!(allocate(2), Some(44), "behind the 20 MiB of the newer chunk");
        assert_eq!(allocate(100), Some(64 + 128), "whole chunks");
    }

    #[test]
    fn the_smallest_hole_is_taken_and_a_gap_needs_room_to_align() {
        let mut space = space();
        let mut allocate = |mib: u64| space.take(mib * MIB).unwrap();
        let [first, _, second, _] = [10, 2, 6, 14].map(&mut allocate);
        let [middle, lowest] = [32, 32].map(&mut allocate);
        assert!(space.give_back(first).is_some() && space.give_back(second).is_some());
        assert_eq!(space.take(4 * MIB), Some(second), "6 MiB, though 10 lie below");
        assert_eq!(space.give_back(middle), Some(32 * MIB));
        assert_eq!(space.take(32 * MIB), Some(lowest - 32 * MIB), "not into the gap of just 32 MiB");
    }

    #[test]
    fn what_is_freed_is_used_again_and_an_empty_chunk_goes() {
        let mut space = space();
        let first = space.take(2 * MIB).unwrap();
        let second = space.take(2 * MIB).unwrap();
        assert_eq!(space.give_back(first), Some(2 * MIB));
        assert_eq!(space.give_back(first), None, "it is not there any more");
        assert_eq!(space.take(1), Some(first));
        assert!(space.give_back(first).is_some() && space.give_back(second).is_some());
        assert_eq!((space.chunks.len(), space.by_base.len()), (0, 0));
    }

    #[test]
    fn addresses_run_out_and_sizes_do_not_wrap() {
        let mut narrow = DriverAddressSpace::new(TOP - 32 * MIB, TOP);
        assert_eq!(narrow.take(u64::MAX), None, "rounding up must not wrap");
        assert!(narrow.take(32 * MIB).is_some());
        assert_eq!(narrow.take(MIB), None);
    }

    #[test]
    fn an_address_within_is_found() {
        let mut space = space();
        let base = space.take(3 * MIB).unwrap();
        assert_eq!(space.range_of(base + 5), Some((base, 4 * MIB)));
        assert_eq!(space.range_of(base + 4 * MIB), None);
        assert_eq!(space.range_of(0), None);
    }
}
