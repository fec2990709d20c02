//! Where the driver puts memory.
//!
//! Address space is taken in chunks of whole 32 MiB, each new one at the top of the highest gap that has 32 MiB more than it needs.
//! Before that, the newest chunk with a hole that is large enough gives the smallest such hole. A chunk with nothing in it goes. Sizes
//! are rounded up to 2 MiB.
//!
//! # Source
//! Read off an H200 (driver 580, CUDA 13.0): 50,000 calls of `cudaMalloc` and `cudaFree` at random, in four processes that did nothing
//! else, were all answered so; `testdata/driver/addresses.txt` has 4,000 of them.

use std::collections::{BTreeMap, BTreeSet};

/// The unit of the driver's sizes, in bytes, also for mapped memory.
pub const GRANULARITY: u64 = 2 << 20;
/// What reservations of addresses without memory (`cuMemAddressReserve`) begin at a multiple of here, each above the one before.
///
/// # Source
/// Expandable segments of recordings from an H200: they lie far below what `cudaMalloc` gives, at `0x3_0200_0000` and
/// `0x2a_5400_0000` for reservations of 157 GiB. How the driver aligns them was not measured.
pub const RESERVATION_ALIGNMENT: u64 = 1 << 30;
/// The unit of address space.
const CHUNK: u64 = 32 << 20;

/// The addresses of one device in one process. How much memory there is, others know.
///
/// Each call takes a time that grows with the logarithm of what lies there.
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
    /// The chunks, by their largest holes.
    holes: BySize,
    /// Where gaps between chunks, and the one above them, end.
    gaps: BySize,
}

/// Things by their sizes. There are never many sizes: so many different ones do not fit beside each other.
#[derive(Clone, Debug, Default)]
struct BySize(BTreeMap<u64, BTreeSet<u64>>);

impl BySize {
    fn add(&mut self, size: u64, thing: u64) {
        if size > 0 {
            self.0.entry(size).or_default().insert(thing);
        }
    }

    fn remove(&mut self, size: u64, thing: u64) {
        if let Some(things) = self.0.get_mut(&size) {
            things.remove(&thing);
            if things.is_empty() {
                self.0.remove(&size);
            }
        }
    }

    /// The last of those that are large enough.
    fn last(&self, size: u64) -> Option<u64> {
        self.0.range(size..).filter_map(|(_, things)| things.last().copied()).max()
    }
}

#[derive(Clone, Debug)]
struct Chunk {
    base: u64,
    size: u64,
    /// Sizes by base.
    ranges: BTreeMap<u64, u64>,
    /// The holes between them: size and base.
    holes: BTreeSet<(u64, u64)>,
}

impl Chunk {
    fn end(&self) -> u64 {
        self.base + self.size
    }

    fn largest_hole(&self) -> u64 {
        self.holes.last().map_or(0, |&(length, _)| length)
    }

    fn add_hole(&mut self, base: u64, end: u64) {
        if end > base {
            self.holes.insert((end - base, base));
        }
    }

    /// Takes the smallest hole that is large enough, the lowest of equal ones.
    fn fill(&mut self, size: u64) -> Option<u64> {
        let (length, base) = self.holes.range((size, 0)..).next().copied()?;
        self.holes.remove(&(length, base));
        self.add_hole(base + size, base + length);
        self.ranges.insert(base, size);
        Some(base)
    }

    /// Frees a range: one hole together with its free neighbours.
    fn empty(&mut self, address: u64) -> Option<u64> {
        let size = self.ranges.remove(&address)?;
        let below = self.ranges.range(..address).next_back().map_or(self.base, |(&base, &size)| base + size);
        let above = self.ranges.range(address..).next().map_or(self.end(), |(&base, _)| base);
        self.holes.remove(&(address - below, below));
        self.holes.remove(&(above - address - size, address + size));
        self.add_hole(below, above);
        Some(size)
    }
}

impl DriverAddressSpace {
    /// Nothing lies there yet. `end` is the first address behind it.
    pub fn new(start: u64, end: u64) -> Self {
        let (chunks, by_base) = Default::default();
        DriverAddressSpace { start, end, chunks, by_base, made: 0, holes: BySize::default(), gaps: BySize::default() }
    }

    /// Addresses for `bytes`, rounded up to [`GRANULARITY`]; `None` if there are none left. For 0 bytes there is a unit, too.
    pub fn take(&mut self, bytes: u64) -> Option<u64> {
        let size = bytes.max(1).checked_next_multiple_of(GRANULARITY)?;
        let Some(newest) = self.holes.last(size) else { return self.open_chunk(size) };
        self.change(newest, |chunk| chunk.fill(size))
    }

    /// Changes what is in a chunk, whose largest hole may be another then.
    fn change<T>(&mut self, made: u64, change: impl FnOnce(&mut Chunk) -> Option<T>) -> Option<T> {
        let chunk = self.chunks.get_mut(&made)?;
        let before = chunk.largest_hole();
        let changed = change(chunk);
        let after = chunk.largest_hole();
        if after != before {
            self.holes.remove(before, made);
            self.holes.add(after, made);
        }
        changed
    }

    fn open_chunk(&mut self, size: u64) -> Option<u64> {
        let length = size.checked_next_multiple_of(CHUNK)?;
        let base = self.place(length)?;
        let (above, below) = self.around(base, base + length);
        self.gaps.remove(above - below.unwrap_or(above), above);
        self.gaps.add(above - base - length, above);
        self.gaps.add(base - below.unwrap_or(base), base);
        let mut chunk = Chunk { base, size: length, ranges: BTreeMap::from([(base, size)]), holes: BTreeSet::new() };
        chunk.add_hole(base + size, base + length);
        self.holes.add(length - size, self.made);
        self.chunks.insert(self.made, chunk);
        self.by_base.insert(base, self.made);
        self.made += 1;
        Some(base)
    }

    /// Where a chunk goes: below all others if no gap suffices. The driver asks the system for what it may lose by aligning it, too.
    fn place(&self, length: u64) -> Option<u64> {
        let gap = self.gaps.last(length.checked_add(CHUNK)?);
        let lowest = self.by_base.first_key_value().map_or(self.end, |(&base, _)| base);
        gap.unwrap_or(lowest).checked_sub(length).filter(|&base| base >= self.start)
    }

    /// Where the gap around a chunk, there or not, ends, and where it begins if there is another chunk below.
    fn around(&self, base: u64, end: u64) -> (u64, Option<u64>) {
        let above = self.by_base.range(end..).next().map_or(self.end, |(&base, _)| base);
        let below = self.by_base.range(..base).next_back().map(|(_, made)| self.chunks[made].end());
        (above, below)
    }

    /// Frees the range at an address, and returns its size; `None` if none begins there.
    pub fn give_back(&mut self, address: u64) -> Option<u64> {
        let (&base, &made) = self.by_base.range(..=address).next_back()?;
        let size = self.change(made, |chunk| chunk.empty(address))?;
        if self.chunks[&made].ranges.is_empty() {
            self.close_chunk(base, made);
        }
        Some(size)
    }

    /// Nothing is in a chunk any more.
    fn close_chunk(&mut self, base: u64, made: u64) {
        let Some(Chunk { size, .. }) = self.chunks.remove(&made) else { return };
        self.by_base.remove(&base);
        self.holes.remove(size, made);
        let (above, below) = self.around(base, base + size);
        self.gaps.remove(above - base - size, above);
        self.gaps.remove(base - below.unwrap_or(base), base);
        self.gaps.add(above - below.unwrap_or(above), above);
    }

    /// The base and the size of the range at an address.
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
        assert!(space.holes.0.is_empty() && space.gaps.0.is_empty());
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

    /// The rule as it reads, each chunk and each hole looked at.
    #[derive(Default)]
    struct Naive {
        /// From the oldest on: base, size, and what lies there.
        chunks: Vec<(u64, u64, BTreeMap<u64, u64>)>,
    }

    impl Naive {
        fn take(&mut self, size: u64) -> u64 {
            for (base, length, ranges) in self.chunks.iter_mut().rev() {
                let starts = ranges.iter().map(|(base, size)| base + size);
                let ends = ranges.keys().copied().chain([*base + *length]);
                let holes = std::iter::once(*base).chain(starts).zip(ends).map(|(start, end)| (end - start, start));
                if let Some((_, start)) = holes.filter(|&(hole, _)| hole >= size).min() {
                    ranges.insert(start, size);
                    return start;
                }
            }
            let length = size.next_multiple_of(CHUNK);
            let mut by_base: Vec<(u64, u64)> = self.chunks.iter().map(|&(base, size, _)| (base, size)).collect();
            by_base.sort_unstable();
            let mut top = TOP;
            for (base, size) in by_base.into_iter().rev() {
                if top - (base + size) >= length + CHUNK {
                    break;
                }
                top = base;
            }
            self.chunks.push((top - length, length, BTreeMap::from([(top - length, size)])));
            top - length
        }

        fn give_back(&mut self, address: u64) -> Option<u64> {
            let size = self.chunks.iter_mut().find_map(|(_, _, ranges)| ranges.remove(&address));
            self.chunks.retain(|(_, _, ranges)| !ranges.is_empty());
            size
        }
    }

    #[test]
    fn calls_at_random_are_answered_as_the_rule_reads() {
        for seed in 1..=20_u64 {
            let (mut space, mut naive, mut live) = (space(), Naive::default(), Vec::new());
            let mut random = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
            let mut below = |end: u64| {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                random % end
            };
            for call in 0..600 {
                // It fills, and then it empties.
                let takes = below(10) < if call / 150 % 2 == 0 { 7 } else { 3 };
                if takes || live.is_empty() {
                    let units = [1, 10, 1 + below(30), 1 + below(300)][usize::try_from(below(4)).unwrap()];
                    let address = naive.take(2 * MIB * units);
                    assert_eq!(space.take(2 * MIB * units), Some(address), "seed {seed}, call {call}");
                    live.push(address);
                } else {
                    let address = live.swap_remove(usize::try_from(below(live.len() as u64)).unwrap());
                    assert_eq!(space.give_back(address), naive.give_back(address), "seed {seed}, call {call}");
                }
            }
        }
    }
}
