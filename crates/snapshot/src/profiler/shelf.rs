//! Memory without addresses: blocks of one category, of which a size is taken.

use hashbrown::HashMap;

/// Where the first made-up address lies.
const FIRST_ADDRESS: u64 = 1 << 40;

/// Made-up addresses begin at multiples of this, as PyTorch's do.
const ALIGNMENT_BYTES: u64 = 512;

/// Gives every block an address range of its own.
#[derive(Debug)]
pub(super) struct Addresses(u64);

impl Default for Addresses {
    fn default() -> Self {
        Self(FIRST_ADDRESS)
    }
}

impl Addresses {
    /// The next address; `None` once the sizes add up to more than there are addresses.
    pub(super) fn next(&mut self, bytes: u64) -> Option<u64> {
        let address = self.0;
        self.0 = address.checked_add(bytes)?.checked_next_multiple_of(ALIGNMENT_BYTES)?;
        Some(address)
    }
}

/// A block that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Block {
    pub(super) address: u64,
    pub(super) bytes: u64,
}

/// The blocks of one category, in the order in which they came.
#[derive(Debug, Default)]
pub(super) struct Shelf {
    /// `None` where one was taken.
    blocks: Vec<Option<Block>>,
    /// Rows by size, the newest last. The hash is seeded: a file chooses its sizes.
    by_size: HashMap<u64, Vec<usize>>,
    total_bytes: u64,
}

/// What was taken.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Taken {
    /// These blocks.
    pub(super) blocks: Vec<Block>,
    /// As many bytes of them more than were wanted.
    pub(super) left_over_bytes: u64,
}

impl Shelf {
    /// Bytes of all blocks.
    pub(super) fn total_bytes(&self) -> u64 {
        self.total_bytes
    }

    /// Adds a block.
    pub(super) fn put(&mut self, block: Block) {
        self.by_size.entry(block.bytes).or_default().push(self.blocks.len());
        self.blocks.push(Some(block));
        self.total_bytes = self.total_bytes.saturating_add(block.bytes);
    }

    /// Takes the newest block of this size; `None` if there is none.
    pub(super) fn take_exact(&mut self, bytes: u64) -> Option<Block> {
        let rows = self.by_size.get_mut(&bytes)?;
        let mut found = None;
        while let Some(row) = rows.pop() {
            // A block that went by another way left its row here; another block may have that row since.
            found = self.blocks.get_mut(row).and_then(|slot| slot.take_if(|block| block.bytes == bytes));
            if found.is_some() {
                break;
            }
        }
        if rows.is_empty() {
            self.by_size.remove(&bytes);
        }
        self.total_bytes -= found.map_or(0, |block| block.bytes);
        found
    }

    /// Takes this many bytes: a block of that size, else the newest ones; `None` if there are not as many.
    pub(super) fn take(&mut self, bytes: u64) -> Option<Taken> {
        if let Some(block) = self.take_exact(bytes) {
            return Some(Taken { blocks: vec![block], left_over_bytes: 0 });
        }
        if self.total_bytes < bytes {
            return None;
        }
        let mut blocks = Vec::new();
        let mut missing = bytes;
        while missing > 0 {
            let Some(block) = self.blocks.pop()? else { continue };
            self.total_bytes -= block.bytes;
            blocks.push(block);
            if block.bytes > missing {
                return Some(Taken { blocks, left_over_bytes: block.bytes - missing });
            }
            missing -= block.bytes;
        }
        Some(Taken { blocks, left_over_bytes: 0 })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Whatever is put and taken, the bytes are those of a plain sum, and every block is taken once at most.
        #[test]
        fn a_shelf_holds_what_was_put_less_what_was_taken(steps in prop::collection::vec((any::<bool>(), 1_u64..6), 0..200)) {
            let (mut shelf, mut addresses) = (Shelf::default(), Addresses::default());
            let (mut sum, mut out) = (0, std::collections::HashSet::new());
            for (put, bytes) in steps {
                if put {
                    shelf.put(Block { address: addresses.next(bytes).unwrap(), bytes });
                    sum += bytes;
                } else if let Some(taken) = shelf.take(bytes) {
                    let got: u64 = taken.blocks.iter().map(|block| block.bytes).sum();
                    prop_assert_eq!(got, bytes + taken.left_over_bytes);
                    for block in taken.blocks {
                        prop_assert!(out.insert(block.address));
                    }
                    sum -= got;
                } else {
                    prop_assert!(sum < bytes);
                }
                prop_assert_eq!(shelf.total_bytes(), sum);
            }
            let left: u64 = shelf.blocks.iter().flatten().map(|block| block.bytes).sum();
            prop_assert_eq!(left, sum);
        }
    }

    #[test]
    fn the_newest_block_of_the_size_is_taken_first() {
        let mut shelf = Shelf::default();
        for (address, bytes) in [(1, 10), (2, 20), (3, 10), (4, 30)] {
            shelf.put(Block { address, bytes });
        }
        assert_eq!(shelf.take_exact(10), Some(Block { address: 3, bytes: 10 }));
        assert_eq!(shelf.take_exact(10), Some(Block { address: 1, bytes: 10 }));
        assert_eq!(shelf.take_exact(10), None);
    }
}
