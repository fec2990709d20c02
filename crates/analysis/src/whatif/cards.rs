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
    /// Compute capability: major, minor.
    pub compute_capability: (u32, u32),
    /// Streaming multiprocessors.
    pub multiprocessors: u32,
}

impl Card {
    /// What the driver says is there: less than the box says, where error correction takes its part.
    pub const fn total_bytes(&self) -> u64 {
        self.total_hundredths * (1 << 30) / 100
    }
}

const fn card(
    name: &'static str,
    gigabytes: u32,
    total_hundredths: u64,
    compute_capability: (u32, u32),
    multiprocessors: u32,
) -> Card {
    Card { name, gigabytes, total_hundredths, compute_capability, multiprocessors }
}

/// The cards that can be named.
///
/// # Source
/// The totals are those of out-of-memory messages that users of these cards have posted; that of the H200 is measured
/// (150,109,880,320 bytes). Compute capabilities and multiprocessors: the makers' data sheets.
pub const CARDS: [Card; 16] = [
    card("rtx4060", 8, 775, (8, 9), 24),
    card("rtx3060", 12, 1163, (8, 6), 28),
    card("t4", 16, 1456, (7, 5), 40),
    card("v100", 16, 1577, (7, 0), 80),
    card("l4", 24, 2203, (8, 9), 58),
    card("a10g", 24, 2203, (8, 6), 80),
    card("a30", 24, 2353, (8, 0), 56),
    card("rtx4090", 24, 2364, (8, 9), 128),
    card("rtx3090", 24, 2368, (8, 6), 82),
    card("a100-40", 40, 3938, (8, 0), 108),
    card("l40s", 48, 4439, (8, 9), 142),
    card("a6000", 48, 4740, (8, 6), 84),
    card("a100", 80, 7914, (8, 0), 108),
    card("h100", 80, 7918, (9, 0), 132),
    card("h200", 141, 13980, (9, 0), 132),
    card("b200", 192, 17835, (10, 0), 148),
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
