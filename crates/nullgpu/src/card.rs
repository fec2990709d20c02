//! The cards that the null GPU can be, with the numbers that their makers publish.

/// A kind of card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Card {
    /// How it is called on the command line.
    pub key: &'static str,
    /// The name that the driver gives.
    pub name: &'static str,
    /// What the driver says is there.
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
}

const MIB: u64 = 1 << 20;

/// `hundredths`: the memory in hundredths of a GiB, as out-of-memory messages of these cards print it.
const fn card(
    key: &'static str,
    name: &'static str,
    hundredths: u64,
    compute_capability: (u32, u32),
    multiprocessors: u32,
    l2_mib: u64,
    bus_bits: u32,
) -> Card {
    let memory_bytes = hundredths * (1 << 30) / 100;
    let l2_bytes = l2_mib * MIB;
    Card { key, name, memory_bytes, compute_capability, multiprocessors, l2_bytes, bus_bits, proven: false }
}

/// The cards that can be named.
///
/// # Source
/// Multiprocessors, caches and buses: the makers' data sheets and architecture papers; compute capabilities: NVIDIA's list
/// "CUDA GPU compute capability". Memory as `highwater-analysis` has it (`whatif/cards`), measured for the H200.
pub const CARDS: [Card; 14] = [
    card("v100", "Tesla V100-SXM2-16GB", 1577, (7, 0), 80, 6, 4096),
    card("t4", "Tesla T4", 1456, (7, 5), 40, 4, 256),
    card("a10", "NVIDIA A10", 2206, (8, 6), 72, 6, 384),
    card("l4", "NVIDIA L4", 2203, (8, 9), 58, 48, 192),
    card("rtx3090", "NVIDIA GeForce RTX 3090", 2368, (8, 6), 82, 6, 384),
    card("rtx4090", "NVIDIA GeForce RTX 4090", 2364, (8, 9), 128, 72, 384),
    card("rtx5090", "NVIDIA GeForce RTX 5090", 3136, (12, 0), 170, 96, 512),
    card("a100-40", "NVIDIA A100-SXM4-40GB", 3938, (8, 0), 108, 40, 5120),
    card("l40s", "NVIDIA L40S", 4439, (8, 9), 142, 96, 384),
    card("a100", "NVIDIA A100-SXM4-80GB", 7914, (8, 0), 108, 40, 5120),
    card("a100-80", "NVIDIA A100-SXM4-80GB", 7914, (8, 0), 108, 40, 5120),
    card("h100", "NVIDIA H100 80GB HBM3", 7918, (9, 0), 132, 50, 5120),
    Card { memory_bytes: 150_109_880_320, proven: true, ..card("h200", "NVIDIA H200", 13980, (9, 0), 132, 60, 6144) },
    card("b200", "NVIDIA B200", 17835, (10, 0), 148, 126, 8192),
];

impl Card {
    /// The card of a name; letters may be of either case.
    pub fn named(key: &str) -> Option<&'static Card> {
        CARDS.iter().find(|card| card.key.eq_ignore_ascii_case(key))
    }

    /// The card as the core reads it, with another amount of memory if one is given.
    pub fn settings(&self, memory_bytes: Option<u64>) -> String {
        let (major, minor) = self.compute_capability;
        format!(
            "name={};memory={};cc={major}.{minor};sms={};l2={};bus={}",
            self.name,
            memory_bytes.unwrap_or(self.memory_bytes),
            self.multiprocessors,
            self.l2_bytes,
            self.bus_bits
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cards_are_found_by_name_and_only_one_is_proven() {
        assert_eq!(Card::named("H200").map(|card| card.memory_bytes), Some(150_109_880_320));
        assert_eq!(Card::named("h300"), None);
        assert_eq!(CARDS.iter().filter(|card| card.proven).count(), 1);
        let t4 = Card::named("t4").unwrap();
        let memory = 8 << 30;
        assert_eq!(t4.settings(Some(memory)), "name=Tesla T4;memory=8589934592;cc=7.5;sms=40;l2=4194304;bus=256");
    }
}
