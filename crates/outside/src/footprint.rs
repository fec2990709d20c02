//! How much of the card allocations take: whole pages of the driver, some of which several small allocations share.

use rustc_hash::FxHashMap;

/// The unit in which the driver takes memory from the card.
///
/// # Source
/// An H100 and an H200 (driver 580): `cudaMemGetInfo` before and after each call. Allocations of 300,000 bytes share pages, six to a page;
/// 6,967,984 bytes take 8 MiB.
const PAGE: u64 = 2 << 20;

/// The pages that live allocations touch.
///
/// A page that several touch belongs to the one that touched it first, until it is empty.
#[derive(Clone, Debug, Default)]
pub struct Footprint {
    /// Pages that an allocation has only a part of: how many touch each, and whose it is.
    shared: FxHashMap<u64, (u32, u32)>,
}

impl Footprint {
    /// Adds an allocation. Gives the bytes that the card has less for it.
    pub fn add(&mut self, address: u64, bytes: u64, owner: u32) -> u64 {
        let (whole, edges) = parts(address, bytes);
        let mut taken = whole;
        for page in edges.into_iter().flatten() {
            let (touching, _) = self.shared.entry(page).or_insert((0, owner));
            *touching += 1;
            if *touching == 1 {
                taken += PAGE;
            }
        }
        taken
    }

    /// Removes an allocation. Calls `gone` with each owner of pages that are free again, and their bytes.
    pub fn remove(&mut self, address: u64, bytes: u64, owner: u32, mut gone: impl FnMut(u32, u64)) {
        let (whole, edges) = parts(address, bytes);
        if whole > 0 {
            gone(owner, whole);
        }
        for page in edges.into_iter().flatten() {
            let Some((touching, first)) = self.shared.get_mut(&page) else { continue };
            *touching -= 1;
            if *touching == 0 {
                let first = *first;
                self.shared.remove(&page);
                gone(first, PAGE);
            }
        }
    }
}

/// The bytes of whole pages, and the pages at both ends of which others may have the rest.
fn parts(address: u64, bytes: u64) -> (u64, [Option<u64>; 2]) {
    let Some(end) = address.checked_add(bytes).filter(|_| bytes > 0) else { return (0, [None; 2]) };
    if address.is_multiple_of(PAGE) && bytes >= PAGE {
        // The driver gives no one else the rest of the last page.
        return (bytes.checked_next_multiple_of(PAGE).unwrap_or(bytes), [None; 2]);
    }
    let (first, last) = (address / PAGE, (end - 1) / PAGE);
    if first == last {
        return (0, [Some(first), None]);
    }
    ((last - first - 1) * PAGE, [Some(first), Some(last)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_allocations_share_a_page() {
        let mut footprint = Footprint::default();
        assert_eq!(footprint.add(0, 1024, 1), PAGE);
        assert_eq!(footprint.add(1024, 131_072, 2), 0);
        let mut gone = Vec::new();
        footprint.remove(0, 1024, 1, |owner, bytes| gone.push((owner, bytes)));
        assert_eq!(gone, []);
        footprint.remove(1024, 131_072, 2, |owner, bytes| gone.push((owner, bytes)));
        assert_eq!(gone, [(1, PAGE)], "the page is its who touched it first");
    }

    #[test]
    fn large_ones_take_whole_pages() {
        let mut footprint = Footprint::default();
        assert_eq!(footprint.add(PAGE, 6_967_984, 1), 4 * PAGE);
        assert_eq!(footprint.add(100 * PAGE, PAGE, 1), PAGE);
        assert_eq!(footprint.add(10 * PAGE + 1, 2 * PAGE, 1), 3 * PAGE, "not at the start of a page");
        assert_eq!(footprint.add(u64::MAX, 2, 1), 0, "beyond all addresses");
    }
}
