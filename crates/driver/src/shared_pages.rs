//! Where the driver puts small allocations: several in a page.
//!
//! An allocation smaller than [`GRANULARITY`] lies in a page of that size, rounded up to 512 bytes. It takes the smallest hole of all pages
//! that is large enough; of equal holes, the one that has not changed for the longest time. If there is none, a page is opened, at the place
//! of an allocation of a whole page; an empty page is released at once. The rest of a larger allocation's last page stays empty.
//!
//! # Source
//! Recorded on an H100 (driver 580, CUDA 13.0): 15,000 random calls of `cudaMalloc` and `cudaFree`, half of them below a page, all follow
//! this rule; `testdata/driver/small.txt` has 2,000 of them.

use std::collections::{BTreeMap, BTreeSet};

use crate::address_space::GRANULARITY;

/// The unit of sizes within a page, in bytes.
const UNIT: u64 = 512;

/// The pages that small allocations share.
#[derive(Clone, Debug, Default)]
pub struct SharedPages {
    pages: BTreeSet<u64>,
    /// Sizes of allocations by address.
    ranges: BTreeMap<u64, u64>,
    /// Sizes of holes by address, and their age: the number of changes before each.
    holes: BTreeMap<u64, (u64, u64)>,
    /// Holes as size, age and address: the first that is large enough is taken.
    by_size: BTreeSet<(u64, u64, u64)>,
    changes: u64,
}

/// The state of a page after an allocation in it was freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Page {
    /// Other allocations lie in it.
    InUse,
    /// The page that begins at this address is empty, and no longer shared.
    Empty(u64),
}

impl SharedPages {
    /// Whether an allocation of this size shares a page.
    pub fn is_small(bytes: u64) -> bool {
        bytes < GRANULARITY
    }

    /// An address for a small allocation in the open pages; `None` if it needs another page.
    pub fn take(&mut self, bytes: u64) -> Option<u64> {
        let size = bytes.max(1).checked_next_multiple_of(UNIT)?;
        let &(length, _, base) = self.by_size.range((size, 0, 0)..).next()?;
        self.remove_hole(base);
        self.fill(base, size, length);
        Some(base)
    }

    /// Opens a page for a small allocation, which lies at its beginning.
    pub fn open(&mut self, page: u64, bytes: u64) {
        self.pages.insert(page);
        self.fill(page, bytes.max(1).next_multiple_of(UNIT), GRANULARITY);
    }

    /// Frees the allocation at an address; `None` if none begins there.
    pub fn give_back(&mut self, address: u64) -> Option<Page> {
        let size = self.ranges.remove(&address)?;
        let page = address - address % GRANULARITY;
        let (mut base, mut end) = (address, address + size);
        if let Some((length, _)) = self.holes.get(&end).copied().filter(|_| end < page + GRANULARITY) {
            self.remove_hole(end);
            end += length;
        }
        let below = self.holes.range(page..address).next_back().map(|(&base, &(length, _))| (base, base + length));
        if let Some((below, _)) = below.filter(|&(_, end)| end == address) {
            self.remove_hole(below);
            base = below;
        }
        if end - base == GRANULARITY {
            self.pages.remove(&page);
            return Some(Page::Empty(page));
        }
        self.add_hole(base, end);
        Some(Page::InUse)
    }

    /// Whether a page is one of these.
    pub fn has(&self, page: u64) -> bool {
        self.pages.contains(&page)
    }

    /// The base and the size of the allocation at an address.
    pub fn range_of(&self, address: u64) -> Option<(u64, u64)> {
        let (&base, &size) = self.ranges.range(..=address).next_back()?;
        (address - base < size).then_some((base, size))
    }

    fn fill(&mut self, base: u64, size: u64, length: u64) {
        self.ranges.insert(base, size);
        self.add_hole(base + size, base + length);
    }

    fn add_hole(&mut self, base: u64, end: u64) {
        if end > base {
            self.changes += 1;
            self.holes.insert(base, (end - base, self.changes));
            self.by_size.insert((end - base, self.changes, base));
        }
    }

    fn remove_hole(&mut self, base: u64) {
        if let Some((length, age)) = self.holes.remove(&base) {
            self.by_size.remove(&(length, age, base));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Context, DriverAddressSpace};

    const TOP: u64 = 1 << 40;

    /// Where a process's allocations go: small ones into shared pages, the others beside these.
    struct Process {
        space: DriverAddressSpace,
        small: SharedPages,
        /// Where the first page lies: right below the end of the context's first local memory.
        first: u64,
    }

    impl Process {
        fn new() -> Self {
            let mut space = DriverAddressSpace::new(0, TOP);
            Context::new(&mut space);
            let first = space.clone().take(GRANULARITY).unwrap();
            Process { space, small: SharedPages::default(), first }
        }

        fn take(&mut self, bytes: u64) -> u64 {
            if !SharedPages::is_small(bytes) {
                return self.space.take(bytes).unwrap();
            }
            self.small.take(bytes).unwrap_or_else(|| {
                let page = self.space.take(GRANULARITY).unwrap();
                self.small.open(page, bytes);
                page
            })
        }

        fn give_back(&mut self, address: u64) {
            let whole = match self.small.give_back(address) {
                Some(Page::InUse) => return,
                Some(Page::Empty(page)) => page,
                None => address,
            };
            self.space.give_back(whole).unwrap();
        }

        fn at(&self, offset: i64) -> u64 {
            (self.first + GRANULARITY).wrapping_add_signed(offset * UNIT.cast_signed())
        }
    }

    #[test]
    fn small_allocations_lie_where_they_did_on_an_h100() {
        let recorded = include_str!("../../../testdata/driver/small.txt");
        let mut process = Process::new();
        for (line, call) in recorded.lines().enumerate() {
            let words: Vec<&str> = call.split(' ').collect();
            match words.as_slice() {
                ["="] => process = Process::new(),
                ["+", bytes, offset] => {
                    let address = process.at(offset.parse().unwrap());
                    assert_eq!(process.take(bytes.parse().unwrap()), address, "line {}: {call}", line + 1);
                }
                ["-", offset] => process.give_back(process.at(offset.parse().unwrap())),
                _ => panic!("{call}"),
            }
        }
        assert_eq!(recorded.lines().count(), 2002);
    }

    #[test]
    fn an_empty_page_goes_and_one_in_use_stays() {
        let mut pages = SharedPages::default();
        assert_eq!(pages.take(1), None, "no page yet");
        pages.open(GRANULARITY, 1);
        assert_eq!(pages.take(GRANULARITY - 2 * UNIT), Some(GRANULARITY + UNIT));
        assert_eq!(pages.range_of(GRANULARITY + UNIT + 5), Some((GRANULARITY + UNIT, GRANULARITY - 2 * UNIT)));
        assert_eq!(pages.give_back(GRANULARITY), Some(Page::InUse));
        assert_eq!(pages.give_back(GRANULARITY), None, "once");
        assert_eq!(pages.give_back(GRANULARITY + UNIT), Some(Page::Empty(GRANULARITY)));
        assert!(!pages.has(GRANULARITY) && pages.holes.is_empty() && pages.by_size.is_empty());
    }

    #[test]
    fn a_hole_ends_where_its_page_does() {
        let mut pages = SharedPages::default();
        for page in [GRANULARITY, 2 * GRANULARITY] {
            pages.open(page, GRANULARITY - UNIT);
        }
        assert_eq!(pages.take(UNIT), Some(2 * GRANULARITY - UNIT), "the older of equal holes");
        assert_eq!(pages.give_back(GRANULARITY), Some(Page::InUse));
        assert_eq!(pages.take(GRANULARITY), None, "two neighbours are no hole of a whole page");
    }
}
