//! Cards: what PyTorch finds on them, and what it does not get.

/// A kind of card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Card {
    /// How it is called on the command line.
    pub name: &'static str,
    /// The gigabytes on the box.
    pub gigabytes: u32,
    /// "Total capacity" of PyTorch's out-of-memory message, in hundredths of a GiB: it says no more.
    total_hundredths: u64,
}

impl Card {
    /// What the driver says is there: less than the box says, where error correction takes its part.
    pub const fn total_bytes(&self) -> u64 {
        self.total_hundredths * (1 << 30) / 100
    }
}

const fn card(name: &'static str, gigabytes: u32, total_hundredths: u64) -> Card {
    Card { name, gigabytes, total_hundredths }
}

/// The cards that can be named.
///
/// # Source
/// The totals are those of out-of-memory messages that users of these cards have posted; that of the H200 is measured
/// (150,109,880,320 bytes).
pub const CARDS: [Card; 16] = [
    card("rtx4060", 8, 775),
    card("rtx3060", 12, 1163),
    card("t4", 16, 1456),
    card("v100", 16, 1577),
    card("l4", 24, 2203),
    card("a10g", 24, 2203),
    card("a30", 24, 2353),
    card("rtx4090", 24, 2364),
    card("rtx3090", 24, 2368),
    card("a100-40", 40, 3938),
    card("l40s", 48, 4439),
    card("a6000", 48, 4740),
    card("a100", 80, 7914),
    card("h100", 80, 7918),
    card("h200", 141, 13980),
    card("b200", 192, 17835),
];

/// One card of each size, the one with the least memory: what fits it fits the others.
pub fn smallest_of_each_size() -> impl Iterator<Item = &'static Card> {
    CARDS.chunk_by(|a, b| a.gigabytes == b.gigabytes).map(|cards| &cards[0])
}

/// Memory of a card that PyTorch's allocator does not get, if nobody says otherwise: the CUDA context and the kernels
/// that a training program has loaded.
///
/// # Source
/// `spec/memory-formulas.md` section 9: 733 to 742 MiB on an H200 (CUDA 13.0, driver 580).
pub const CONTEXT_BYTES: u64 = 742 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_ascend_and_the_smallest_card_stands_first() {
        assert!(CARDS.is_sorted_by_key(|card| (card.gigabytes, card.total_hundredths)));
        let sizes: Vec<u32> = smallest_of_each_size().map(|card| card.gigabytes).collect();
        assert_eq!(sizes, [8, 12, 16, 24, 40, 48, 80, 141, 192]);
    }
}
