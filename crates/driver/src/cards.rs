//! The known GPUs, with the properties that a program sees.

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::multiprocessor::Multiprocessor;

/// A kind of card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Card {
    /// How it is called on the command line.
    pub key: &'static str,
    /// The name that the driver gives.
    pub name: &'static str,
    /// Its other names.
    aliases: &'static [&'static str],
    /// The nominal gigabytes.
    pub gigabytes: u32,
    /// The total that the driver reports: less than the nominal gigabytes if error correction takes its part.
    pub memory_bytes: u64,
    /// Compute capability: major, minor.
    pub compute_capability: (u32, u32),
    /// Streaming multiprocessors.
    pub multiprocessors: u32,
    /// The second-level cache.
    pub l2_bytes: u64,
    /// Width of the memory's bus.
    pub bus_bits: u32,
    /// Whether dry runs on this GPU were compared with the real one.
    pub proven: bool,
    /// Whether the memory is one that PyTorch has been seen to report.
    pub reported: bool,
}

const MIB: u64 = 1 << 20;

/// `hundredths`: the memory in hundredths of a GiB, as out-of-memory messages of these cards print it: they say no
/// more.
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
        aliases: &[],
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

/// The GPUs, by the nominal gigabytes and then by the reported memory.
///
/// # Source
/// Memory: out-of-memory messages that users of these cards have posted; the H200's and the H100's are measured, the
/// RTX 5090's is what its maker says. The RTX 4080's (16,049 MiB) and the RTX PRO 6000's (97,250 MiB) are also what
/// `torch.cuda.get_device_properties` printed. A GB10 shares its memory with the processor: drivers have reported
/// 119.70, 121.63 and 121.69 GiB, and the least is here. Multiprocessors, caches and buses: the makers' data sheets and
/// architecture papers; compute capabilities: NVIDIA's list "CUDA GPU compute capability".
pub static CARDS: &[Card] = &[
    card("rtx4060", "NVIDIA GeForce RTX 4060", 8, 775, (8, 9), 24, 24, 128).or(&["4060"]),
    card("rtx3060", "NVIDIA GeForce RTX 3060", 12, 1163, (8, 6), 28, 3, 192).or(&["3060"]),
    card("t4", "Tesla T4", 16, 1456, (7, 5), 40, 4, 256),
    card("rtx4080", "NVIDIA GeForce RTX 4080", 16, 1567, (8, 9), 76, 64, 256).or(&["4080"]),
    card("v100", "Tesla V100-SXM2-16GB", 16, 1577, (7, 0), 80, 6, 4096).or(&["v100-16", "v100-sxm2", "v100-sxm"]),
    card("l4", "NVIDIA L4", 24, 2203, (8, 9), 58, 48, 192),
    card("a10g", "NVIDIA A10G", 24, 2203, (8, 6), 80, 6, 384),
    card("a10", "NVIDIA A10", 24, 2206, (8, 6), 72, 6, 384),
    card("a30", "NVIDIA A30", 24, 2353, (8, 0), 56, 24, 3072),
    card("rtx4090", "NVIDIA GeForce RTX 4090", 24, 2364, (8, 9), 128, 72, 384).or(&["4090"]),
    card("rtx3090", "NVIDIA GeForce RTX 3090", 24, 2368, (8, 6), 82, 6, 384).or(&["3090"]),
    Card {
        reported: false,
        ..card("rtx5090", "NVIDIA GeForce RTX 5090", 32, 3136, (12, 0), 170, 96, 512).or(&["5090"])
    },
    card("a100-40", "NVIDIA A100-SXM4-40GB", 40, 3938, (8, 0), 108, 40, 5120).or(&["a100-40gb", "a100-pcie-40gb"]),
    card("l40s", "NVIDIA L40S", 48, 4439, (8, 9), 142, 96, 384),
    card("a6000", "NVIDIA RTX A6000", 48, 4740, (8, 6), 84, 6, 384),
    card("a100", "NVIDIA A100-SXM4-80GB", 80, 7914, (8, 0), 108, 40, 5120).or(&[
        "a100-80",
        "a100-sxm",
        "a100-sxm4",
        "a100-sxm-80gb",
        "a100-80gb-sxm",
        "a100-80gb-pcie",
    ]),
    Card {
        memory_bytes: 85_017_493_504,
        proven: true,
        ..card("h100", "NVIDIA H100 80GB HBM3", 80, 7917, (9, 0), 132, 50, 5120).or(&[
            "h100-80",
            "h100-sxm",
            "h100-sxm5",
            "h100-80gb-sxm",
            "h100-sxm-80gb",
            "h100-hbm3",
        ])
    },
    card("h100-nvl", "NVIDIA H100 NVL", 94, 9310, (9, 0), 132, 50, 6016).or(&["h100-nvl-94gb"]),
    card("rtxpro6000", "NVIDIA RTX PRO 6000 Blackwell Workstation Edition", 96, 9497, (12, 0), 188, 128, 512).or(&[
        "pro6000",
        "rtx-pro-6000-blackwell",
        "rtx-pro-6000-blackwell-server-edition",
        "rtx-pro-6000-blackwell-max-q-workstation-edition",
    ]),
    card("gb10", "NVIDIA GB10", 128, 11_970, (12, 1), 48, 24, 256).or(&["dgx-spark"]),
    Card {
        memory_bytes: 150_109_880_320,
        proven: true,
        ..card("h200", "NVIDIA H200", 141, 13_980, (9, 0), 132, 60, 6144).or(&["h200-141", "h200-sxm"])
    },
    card("b200", "NVIDIA B200", 192, 17_835, (10, 0), 148, 126, 8192).or(&["b200-192", "b200-sxm"]),
];

/// Prefixes of names of GPUs that may be left out.
const MAKERS: [&str; 3] = ["nvidia", "geforce", "tesla"];

/// A name without case, spaces, dashes and manufacturer, which people write in different ways.
fn plain(name: &str) -> String {
    let letters = name.chars().filter(char::is_ascii_alphanumeric).map(|letter| letter.to_ascii_lowercase());
    let all: String = letters.collect();
    let mut plain = all.as_str();
    for maker in MAKERS {
        plain = plain.strip_prefix(maker).unwrap_or(plain);
    }
    plain.to_owned()
}

/// Every GPU by each of its plain names, with its gigabytes and without.
static BY_NAME: LazyLock<HashMap<String, &'static Card>> = LazyLock::new(|| {
    let mut by_name = HashMap::new();
    for card in CARDS {
        for name in [card.key, card.name].iter().chain(card.aliases).map(|name| plain(name)) {
            // A number and gigabytes would be a size.
            if name.starts_with(|first: char| first.is_ascii_alphabetic()) {
                by_name.entry(format!("{name}{}gb", card.gigabytes)).or_insert(card);
            }
            by_name.entry(name).or_insert(card);
        }
    }
    by_name
});

impl Card {
    const fn or(self, aliases: &'static [&'static str]) -> Self {
        Card { aliases, ..self }
    }

    /// The GPU of a name: its key, the driver's name, or another name, with its gigabytes or without. Case,
    /// spaces and dashes do not matter.
    ///
    /// ```
    /// use highwater_driver::Card;
    ///
    /// for name in ["rtx4090", "RTX 4090", "4090", "NVIDIA GeForce RTX 4090", "RTX 4090 24GB"] {
    ///     assert_eq!(Card::named(name).map(|card| card.key), Some("rtx4090"));
    /// }
    /// assert_eq!(Card::named("24GiB"), None);
    /// ```
    pub fn named(name: &str) -> Option<&'static Card> {
        BY_NAME.get(&plain(name)).copied()
    }

    /// The name as people write it: the driver's without the maker's and without its edition.
    ///
    /// ```
    /// use highwater_driver::Card;
    ///
    /// assert_eq!(Card::named("4060").map(Card::short_name), Some("RTX 4060"));
    /// assert_eq!(Card::named("t4").map(Card::short_name), Some("T4"));
    /// assert_eq!(Card::named("pro6000").map(Card::short_name), Some("RTX PRO 6000"));
    /// ```
    pub fn short_name(&self) -> &'static str {
        let name = ["NVIDIA ", "GeForce ", "Tesla "]
            .iter()
            .fold(self.name, |name, maker| name.strip_prefix(maker).unwrap_or(name));
        name.strip_suffix(" Blackwell Workstation Edition").unwrap_or(name)
    }

    /// The keys of all GPUs, for a message about an unknown one.
    pub fn keys() -> impl Iterator<Item = &'static str> {
        CARDS.iter().map(|card| card.key)
    }

    /// The keys of all cards, as a message lists them.
    pub fn names() -> String {
        // LLVM would unroll a loop over cards that it knows, and spend five minutes of a release build on the lengths of their keys.
        std::hint::black_box(CARDS).iter().map(|card| card.key).collect::<Vec<_>>().join(", ")
    }

    /// One GPU of each size, the one with the least memory: a run that fits on it fits on the others. Sizes without a
    /// reported total are left out.
    pub fn smallest_of_each_size() -> impl Iterator<Item = &'static Card> {
        CARDS.chunk_by(|a, b| a.gigabytes == b.gigabytes).map(|cards| &cards[0]).filter(|card| card.reported)
    }

    /// The limits of each of its multiprocessors.
    pub const fn multiprocessor(&self) -> Multiprocessor {
        Multiprocessor::of(self.compute_capability)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_ascend_and_no_name_means_two_cards() {
        assert!(CARDS.is_sorted_by_key(|card| (card.gigabytes, card.memory_bytes)));
        let mut names: Vec<String> = Vec::new();
        for card in CARDS {
            assert!(card.memory_bytes < u64::from(card.gigabytes) << 30, "{}: less than on the box", card.key);
            for name in [card.key, card.name, card.short_name()].iter().chain(card.aliases) {
                assert_eq!(Card::named(name), Some(card), "{name}");
            }
            let mut own: Vec<String> =
                [card.key, card.name].iter().chain(card.aliases).map(|name| plain(name)).collect();
            own.sort();
            own.dedup();
            names.append(&mut own);
        }
        let all = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), all);
    }

    #[test]
    fn a_card_is_found_by_whatever_it_is_called() {
        for (key, names) in [
            ("rtx4090", &["4090", "RTX 4090", "rtx-4090", "NVIDIA GeForce RTX 4090", "GeForce 4090", "RTX_4090"][..]),
            ("a100", &["A100", "a100-80", "A100-80GB", "A100 80 GB", "a100_80gb", "NVIDIA A100-SXM4-80GB"]),
            ("a100-40", &["A100-40GB", "A100 40GB", "NVIDIA A100-SXM4-40GB"]),
            ("h100", &["H100 SXM", "H100-80GB", "h100 sxm5", "NVIDIA H100 80GB HBM3"]),
            ("h200", &["H200", "NVIDIA H200", "H200 141GB"]),
            ("v100", &["Tesla V100-SXM2-16GB", "V100 16GB"]),
            ("a6000", &["RTX A6000", "NVIDIA RTX A6000"]),
        ] {
            for name in names {
                assert_eq!(Card::named(name).map(|card| card.key), Some(key), "{name}");
            }
        }
        // The H100 for PCI Express has fewer multiprocessors, and a V100 may have 32 GB.
        for other in
            ["", "h300", "24GiB", "24", "80GB", "409024GB", "a100-16gb", "H100 PCIe", "V100-32GB", "nvidia", "ａ100"]
        {
            assert_eq!(Card::named(other), None, "{other}");
        }
    }

    #[test]
    fn the_smallest_card_of_a_size_stands_first() {
        let sizes: Vec<u32> = Card::smallest_of_each_size().map(|card| card.gigabytes).collect();
        assert_eq!(sizes, [8, 12, 16, 24, 40, 48, 80, 94, 96, 128, 141, 192]);
    }

    #[test]
    fn the_cards_that_were_measured_have_what_they_said() {
        let proven: Vec<(&str, u64)> =
            CARDS.iter().filter(|card| card.proven).map(|card| (card.key, card.memory_bytes)).collect();
        assert_eq!(proven, [("h100", 85_017_493_504), ("h200", 150_109_880_320)]);
    }
}
