//! The cards that can be named, with what a program sees of them. Numbers only: this crate knows no file and no GPU.

mod card_or_size;

pub use card_or_size::{CardOrSize, NeitherCardNorSize, names};

/// A kind of card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Card {
    /// How it is called on the command line.
    pub key: &'static str,
    /// The name that the driver gives.
    pub name: &'static str,
    /// The gigabytes on the box.
    pub gigabytes: u32,
    /// What the driver says is there: less than the box says, where error correction takes its part.
    pub memory_bytes: u64,
    /// Compute capability: major, minor.
    pub compute_capability: (u32, u32),
    /// Streaming multiprocessors.
    pub multiprocessors: u32,
    /// The second-level cache.
    pub l2_bytes: u64,
    /// Width of the memory's bus.
    pub bus_bits: u32,
    /// Whether dry runs on it were compared with the real card.
    pub proven: bool,
    /// Whether the memory is one that PyTorch has been seen to report.
    pub reported: bool,
}

const MIB: u64 = 1 << 20;

/// `hundredths`: the memory in hundredths of a GiB, as out-of-memory messages of these cards print it: they say no more.
#[expect(clippy::too_many_arguments, reason = "a row of the table below")]
const fn card(
    key: &'static str,
    name: &'static str,
    gigabytes: u32,
    hundredths: u64,
    compute_capability: (u32, u32),
    multiprocessors: u32,
    l2_mib: u64,
    bus_bits: u32,
) -> Card {
    Card {
        key,
        name,
        gigabytes,
        memory_bytes: hundredths * (1 << 30) / 100,
        compute_capability,
        multiprocessors,
        l2_bytes: l2_mib * MIB,
        bus_bits,
        proven: false,
        reported: true,
    }
}

/// How many there are.
pub const COUNT: usize = 18;

/// The cards, by the gigabytes on the box and then by what is there.
///
/// # Source
/// Memory: out-of-memory messages that users of these cards have posted; the H200's is measured, the RTX 5090's is what
/// its maker says. Multiprocessors, caches and buses: the makers' data sheets and architecture papers; compute
/// capabilities: NVIDIA's list "CUDA GPU compute capability".
pub const CARDS: [Card; COUNT] = [
    card("rtx4060", "NVIDIA GeForce RTX 4060", 8, 775, (8, 9), 24, 24, 128),
    card("rtx3060", "NVIDIA GeForce RTX 3060", 12, 1163, (8, 6), 28, 3, 192),
    card("t4", "Tesla T4", 16, 1456, (7, 5), 40, 4, 256),
    card("v100", "Tesla V100-SXM2-16GB", 16, 1577, (7, 0), 80, 6, 4096),
    card("l4", "NVIDIA L4", 24, 2203, (8, 9), 58, 48, 192),
    card("a10g", "NVIDIA A10G", 24, 2203, (8, 6), 80, 6, 384),
    card("a10", "NVIDIA A10", 24, 2206, (8, 6), 72, 6, 384),
    card("a30", "NVIDIA A30", 24, 2353, (8, 0), 56, 24, 3072),
    card("rtx4090", "NVIDIA GeForce RTX 4090", 24, 2364, (8, 9), 128, 72, 384),
    card("rtx3090", "NVIDIA GeForce RTX 3090", 24, 2368, (8, 6), 82, 6, 384),
    Card { reported: false, ..card("rtx5090", "NVIDIA GeForce RTX 5090", 32, 3136, (12, 0), 170, 96, 512) },
    card("a100-40", "NVIDIA A100-SXM4-40GB", 40, 3938, (8, 0), 108, 40, 5120),
    card("l40s", "NVIDIA L40S", 48, 4439, (8, 9), 142, 96, 384),
    card("a6000", "NVIDIA RTX A6000", 48, 4740, (8, 6), 84, 6, 384),
    card("a100", "NVIDIA A100-SXM4-80GB", 80, 7914, (8, 0), 108, 40, 5120),
    card("h100", "NVIDIA H100 80GB HBM3", 80, 7918, (9, 0), 132, 50, 5120),
    Card {
        memory_bytes: 150_109_880_320,
        proven: true,
        ..card("h200", "NVIDIA H200", 141, 13_980, (9, 0), 132, 60, 6144)
    },
    card("b200", "NVIDIA B200", 192, 17_835, (10, 0), 148, 126, 8192),
];

/// Other names of cards.
const ALIASES: [(&str, &str); 1] = [("a100-80", "a100")];

impl Card {
    /// The card of a name; letters may be of either case.
    pub fn named(key: &str) -> Option<&'static Card> {
        let alias = ALIASES.iter().find(|(alias, _)| alias.eq_ignore_ascii_case(key));
        let key = alias.map_or(key, |&(_, key)| key);
        const { &CARDS }.iter().find(|card| card.key.eq_ignore_ascii_case(key))
    }
}

/// Memory of a card that is gone when a process has begun to use it.
///
/// # Source
/// Six recordings of programs without kernels on an H200 (CUDA 13.0, driver 580): total less free less reserved.
pub const BARE_CONTEXT_BYTES: u64 = 527 << 20;

/// Memory of a card that PyTorch's allocator does not get, if nobody says otherwise: the CUDA context and the kernels
/// that a training program has loaded.
///
/// # Source
/// On an H200 (CUDA 13.0, driver 580), total less free less reserved: 595 MiB when a linear layer has run forward, 749
/// with its backward pass and `AdamW`, 751 and 753 for language models, 771 for `resnet50`; 733 to 742 MiB for those of
/// `spec/memory-formulas.md`, section 9.
pub const CONTEXT_BYTES: u64 = 742 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_ascend_and_names_are_unique() {
        assert!(CARDS.is_sorted_by_key(|card| (card.gigabytes, card.memory_bytes)));
        for (index, card) in CARDS.iter().enumerate() {
            assert!(CARDS[..index].iter().all(|other| other.key != card.key), "{}", card.key);
            assert!(card.memory_bytes < u64::from(card.gigabytes) << 30, "{}: less than on the box", card.key);
        }
    }

    #[test]
    fn cards_are_found_by_name_and_only_one_is_proven() {
        assert_eq!(Card::named("H200").map(|card| card.memory_bytes), Some(150_109_880_320));
        assert_eq!(Card::named("a100-80").map(|card| card.key), Some("a100"));
        assert_eq!(Card::named("h300"), None);
        assert_eq!(CARDS.iter().filter(|card| card.proven).count(), 1);
    }
}
