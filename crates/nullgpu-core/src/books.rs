//! How much of a device's memory is taken, and where it lies.

use highwater_driver::{DriverAddressSpace, GRANULARITY, Page, SharedPages};

/// The memory of one device.
pub(crate) struct Books {
    /// Where it lies; the driver's own, which does not count as taken, too.
    pub(crate) space: DriverAddressSpace,
    /// Small allocations, which share pages of it.
    small: SharedPages,
    /// Bytes that are taken, wherever they lie.
    used: u64,
}

impl Books {
    pub(crate) fn new(start: u64, end: u64) -> Self {
        Books { space: DriverAddressSpace::new(start, end), small: SharedPages::default(), used: 0 }
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
        if !SharedPages::is_small(size) {
            return self.allocate_pages(size, capacity);
        }
        self.small.take(size).or_else(|| {
            let page = self.allocate_pages(GRANULARITY, capacity)?;
            self.small.open(page, size);
            Some(page)
        })
    }

    /// Memory in pages of its own.
    pub(crate) fn allocate_pages(&mut self, size: u64, capacity: u64) -> Option<u64> {
        let size = size.max(1).checked_next_multiple_of(GRANULARITY)?;
        if !self.take(size, capacity) {
            return None;
        }
        let address = self.space.take(size);
        if address.is_none() {
            self.give(size);
        }
        address
    }

    /// Gives back what lies at an address; false if nothing begins there.
    pub(crate) fn free(&mut self, address: u64) -> bool {
        match self.small.give_back(address) {
            Some(Page::InUse) => true,
            Some(Page::Empty(page)) => self.free_pages(page),
            None => !self.small.has(address) && self.free_pages(address),
        }
    }

    fn free_pages(&mut self, address: u64) -> bool {
        let size = self.space.give_back(address);
        self.give(size.unwrap_or(0));
        size.is_some()
    }

    /// The base and the size of the allocation at an address.
    pub(crate) fn range_of(&self, address: u64) -> Option<(u64, u64)> {
        self.small.range_of(address).or_else(|| self.space.range_of(address).filter(|&(base, _)| !self.small.has(base)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;
    const TOP: u64 = 1 << 40;

    #[test]
    fn a_full_card_gives_nothing_and_takes_nothing() {
        let mut books = Books::new(0, TOP);
        let address = books.allocate(4 * MIB, 4 * MIB);
        assert!(address.is_some());
        assert_eq!(books.allocate(1, 4 * MIB), None);
        assert_eq!(books.allocate(u64::MAX, u64::MAX), None, "rounding up must not wrap");
        assert_eq!(books.used(), 4 * MIB);
        assert!(books.free(address.unwrap()) && !books.free(address.unwrap()), "once");
        assert_eq!(books.used(), 0);
        let mut narrow = Books::new(TOP - 32 * MIB, TOP);
        assert!(narrow.allocate(32 * MIB, u64::MAX).is_some());
        assert_eq!(narrow.allocate(MIB, u64::MAX), None, "no addresses left");
        assert_eq!(narrow.used(), 32 * MIB);
    }

    #[test]
    fn small_allocations_share_pages_and_the_last_one_gives_its_page_back() {
        let mut books = Books::new(0, TOP);
        let mut addresses: Vec<u64> = (0..40).map(|_| books.allocate(100_000, 4 * MIB).unwrap()).collect();
        assert_eq!(books.used(), 4 * MIB, "20 of 100,352 bytes in each page");
        assert_eq!(books.allocate(100_000, 4 * MIB), None, "it needs a third page");
        let first = addresses.remove(0);
        assert_eq!(books.range_of(first + 5), Some((first, 100_352)));
        assert!(books.free(first) && !books.free(first), "once, though its page is still there");
        assert_eq!(books.range_of(first), None);
        assert!(addresses.into_iter().all(|address| books.free(address)));
        assert_eq!(books.used(), 0);
        let whole = books.allocate_pages(1, MIB * 4).unwrap();
        assert_eq!((books.used(), books.range_of(whole)), (2 * MIB, Some((whole, 2 * MIB))));
    }
}
