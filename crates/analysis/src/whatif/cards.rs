//! Cards: what PyTorch finds on them, and what it does not get.

pub use highwater_driver::CONTEXT_BYTES;

/// A kind of card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Card {
    /// How it is called on the command line.
    pub name: &'static str,
    /// The gigabytes on the box.
    pub gigabytes: u32,
    /// Compute capability: major, minor.
    pub compute_capability: (u32, u32),
    /// Streaming multiprocessors.
    pub multiprocessors: u32,
    total_bytes: u64,
    reported: bool,
}

impl Card {
    /// What the driver says is there: less than the box says, where error correction takes its part.
    pub const fn total_bytes(&self) -> u64 {
        self.total_bytes
    }

    /// The card of a name, or of another name for it; letters may be of either case.
    pub fn named(name: &str) -> Option<&'static Self> {
        let key = highwater_driver::Card::named(name)?.key;
        CARDS.iter().find(|card| card.name == key)
    }
}

const fn known(index: usize) -> Card {
    let card = highwater_driver::CARDS[index];
    Card {
        name: card.key,
        gigabytes: card.gigabytes,
        compute_capability: card.compute_capability,
        multiprocessors: card.multiprocessors,
        total_bytes: card.memory_bytes,
        reported: card.reported,
    }
}

/// The cards that can be named.
pub static CARDS: [Card; highwater_driver::COUNT] = {
    let mut cards = [known(0); highwater_driver::COUNT];
    let mut index = 0;
    while index < highwater_driver::COUNT {
        cards[index] = known(index);
        index += 1;
    }
    cards
};

/// One card of each size, the one with the least memory: what fits it fits the others. Sizes of which nobody has reported
/// what is there are left out.
pub fn smallest_of_each_size() -> impl Iterator<Item = &'static Card> {
    CARDS.chunk_by(|a, b| a.gigabytes == b.gigabytes).map(|cards| &cards[0]).filter(|card| card.reported)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_card_of_a_size_stands_first() {
        let sizes: Vec<u32> = smallest_of_each_size().map(|card| card.gigabytes).collect();
        assert_eq!(sizes, [8, 12, 16, 24, 40, 48, 80, 141, 192]);
        let h200 = CARDS.iter().find(|card| card.name == "h200").unwrap();
        assert_eq!(h200.total_bytes(), 150_109_880_320);
        assert_eq!(Card::named("A100-80"), Card::named("a100"));
        assert_eq!(Card::named("a1000"), None);
    }
}
