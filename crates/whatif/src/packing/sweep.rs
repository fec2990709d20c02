//! Placing blocks in order of time: what an allocator with one address space and no foresight does.

use std::collections::{BTreeMap, BTreeSet};

use super::moments::Span;

/// The address of each block if each takes, when it starts, the smallest hole that holds it, and of equals the lowest.
///
/// O(blocks · log blocks) whatever the blocks are: the answer that can always be had.
pub(super) fn best_fit(spans: &[Span]) -> Vec<u64> {
    let mut ends: Vec<u32> = (0..super::number(spans.len())).collect();
    ends.sort_unstable_by_key(|&row| spans[row as usize].to);
    let mut ends = ends.into_iter().peekable();
    let mut addresses = vec![0; spans.len()];
    let mut holes = Holes::default();
    for (row, span) in spans.iter().enumerate() {
        while let Some(ended) = ends.next_if(|&row| spans[row as usize].to <= span.from) {
            holes.release(addresses[ended as usize], spans[ended as usize].bytes);
        }
        addresses[row] = holes.take(span.bytes);
    }
    addresses
}

/// Free addresses below the highest one ever taken.
#[derive(Debug, Default)]
struct Holes {
    /// One past each hole, by its first address.
    by_address: BTreeMap<u64, u64>,
    /// (bytes, first address).
    by_size: BTreeSet<(u64, u64)>,
    /// From here on all is free.
    top: u64,
}

impl Holes {
    fn take(&mut self, bytes: u64) -> u64 {
        match self.by_size.range((bytes, 0)..).next().copied() {
            Some((size, address)) => {
                self.remove(address, address + size);
                if size > bytes {
                    self.add(address + bytes, address + size);
                }
                address
            }
            None => {
                // A hole that touches the top grows.
                let last = self.by_address.last_key_value().map(|(&low, &high)| (low, high));
                let address = match last.filter(|&(_, high)| high == self.top) {
                    Some((low, high)) => {
                        self.remove(low, high);
                        low
                    }
                    None => self.top,
                };
                self.top = address + bytes;
                address
            }
        }
    }

    fn release(&mut self, address: u64, bytes: u64) {
        let (mut low, mut high) = (address, address + bytes);
        if let Some((&before, &end)) = self.by_address.range(..low).next_back()
            && end == low
        {
            self.remove(before, end);
            low = before;
        }
        if let Some(&end) = self.by_address.get(&high) {
            self.remove(high, end);
            high = end;
        }
        self.add(low, high);
    }

    fn add(&mut self, low: u64, high: u64) {
        self.by_address.insert(low, high);
        self.by_size.insert((high - low, low));
    }

    fn remove(&mut self, low: u64, high: u64) {
        self.by_address.remove(&low);
        self.by_size.remove(&(high - low, low));
    }
}
