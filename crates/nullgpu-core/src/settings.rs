//! What the parent process wants this GPU to be: environment variables, read once.
//!
//! | Variable | Holds | Without it |
//! | --- | --- | --- |
//! | `HIGHWATER_NULLGPU_CARD` | the card, as `key=value` pairs between semicolons (see [`Card`]) | an H200 |
//! | `HIGHWATER_NULLGPU_DEVICES` | how many of them | 1 |
//! | `HIGHWATER_NULLGPU_CONTEXT` | bytes of a card that programs do not get | 527 MiB, and 742 MiB once a kernel has run |
//! | `HIGHWATER_NULLGPU_CUDA` | the CUDA version as a number: 13000 is 13.0 | 13000 |
//! | `HIGHWATER_NULLGPU_CUDNN` | the cuDNN version as a number: 91900 is 9.19.0 | 91900 |
//! | `HIGHWATER_NULLGPU_NCCL` | the NCCL version as a number: 22809 is 2.28.9 | 22809 |
//! | `HIGHWATER_NULLGPU_PARENT` | the process whose own children end when it does (`parent`) | they go on |
//! | `HIGHWATER_NULLGPU_TRACE` | a file to which every process adds a line of JSON when it ends | nothing is written |

use std::path::PathBuf;
use std::sync::OnceLock;

/// More devices than a process can have.
pub(crate) const DEVICES_MAX: usize = 16;

/// What there is, and of what kind.
pub(crate) struct Settings {
    pub(crate) card: Card,
    pub(crate) devices: usize,
    /// What programs do not get of a card, if the parent process says so.
    pub(crate) context_bytes: Option<u64>,
    pub(crate) cuda: i32,
    pub(crate) cudnn: u64,
    pub(crate) nccl: i32,
    pub(crate) trace: Option<PathBuf>,
}

/// A kind of card, as programs see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Card {
    /// `name`
    pub(crate) name: String,
    /// `memory`: what the driver says is there.
    pub(crate) memory_bytes: u64,
    /// `cc`: the compute capability, as in `9.0`.
    pub(crate) major: i32,
    pub(crate) minor: i32,
    /// `sms`
    pub(crate) multiprocessors: i32,
    /// `l2`
    pub(crate) l2_bytes: i32,
    /// `bus`
    pub(crate) bus_bits: i32,
}

impl Default for Card {
    fn default() -> Self {
        Card {
            name: "NVIDIA H200".to_owned(),
            memory_bytes: 150_109_880_320,
            major: 9,
            minor: 0,
            multiprocessors: 132,
            l2_bytes: 60 << 20,
            bus_bits: 6144,
        }
    }
}

impl Card {
    /// Reads `key=value;…`; keys that are not known, and values that are no numbers, leave what is there.
    fn parse(text: &str) -> Self {
        let mut card = Card::default();
        let number = |value: &str, otherwise: i32| value.parse().unwrap_or(otherwise);
        for (key, value) in text.split(';').filter_map(|pair| pair.split_once('=')) {
            match key {
                "name" => value.clone_into(&mut card.name),
                "memory" => card.memory_bytes = value.parse().unwrap_or(card.memory_bytes),
                "cc" => {
                    if let Some((major, minor)) = value.split_once('.') {
                        card.major = number(major, card.major);
                        card.minor = number(minor, card.minor);
                    }
                }
                "sms" => card.multiprocessors = number(value, card.multiprocessors),
                "l2" => card.l2_bytes = number(value, card.l2_bytes),
                "bus" => card.bus_bits = number(value, card.bus_bits),
                _ => {}
            }
        }
        card
    }

    /// What a multiprocessor of this compute capability has.
    ///
    /// # Source
    /// CUDA C++ Programming Guide, "Technical specifications per compute capability"; those of 9.0 as an H200 says.
    pub(crate) fn limits(&self) -> Limits {
        let (shared_kib, opt_in_kib, threads, blocks) = match (self.major, self.minor) {
            (7, 0 | 2) => (96, 96, 2048, 32),
            (7, _) => (64, 64, 1024, 16),
            (8, 0) => (164, 163, 2048, 32),
            (8, 7) => (164, 163, 1536, 16),
            (8, 9) | (12, _) => (100, 99, 1536, 24),
            (8, _) => (100, 99, 1536, 16),
            _ => (228, 227, 2048, 32),
        };
        Limits {
            shared_bytes: shared_kib << 10,
            shared_opt_in_bytes: opt_in_kib << 10,
            shared_reserved_bytes: if self.major >= 8 { 1 << 10 } else { 0 },
            threads,
            blocks,
        }
    }
}

/// What a multiprocessor has.
#[derive(Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) shared_bytes: i32,
    pub(crate) shared_opt_in_bytes: i32,
    pub(crate) shared_reserved_bytes: i32,
    pub(crate) threads: i32,
    pub(crate) blocks: i32,
}

/// The settings of this process.
pub(crate) fn get() -> &'static Settings {
    static SETTINGS: OnceLock<Settings> = OnceLock::new();
    SETTINGS.get_or_init(|| Settings {
        card: Card::parse(&text("CARD").unwrap_or_default()),
        devices: number("DEVICES", 1usize).clamp(0, DEVICES_MAX),
        context_bytes: text("CONTEXT").and_then(|text| text.parse().ok()),
        cuda: number("CUDA", 13_000),
        cudnn: number("CUDNN", 91_900),
        nccl: number("NCCL", 22_809),
        trace: text("TRACE").filter(|path| !path.is_empty()).map(PathBuf::from),
    })
}

fn text(name: &str) -> Option<String> {
    std::env::var(format!("HIGHWATER_NULLGPU_{name}")).ok()
}

fn number<T: std::str::FromStr>(name: &str, otherwise: T) -> T {
    text(name).and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_card_is_read_and_what_is_not_said_is_an_h200s() {
        assert_eq!(Card::parse(""), Card::default());
        let card = Card::parse("name=Tesla T4;memory=15634661376;cc=7.5;sms=40;l2=4194304;bus=256;other=1");
        assert_eq!((card.name.as_str(), card.memory_bytes, card.major, card.minor), ("Tesla T4", 15_634_661_376, 7, 5));
        assert_eq!((card.multiprocessors, card.l2_bytes, card.bus_bits), (40, 4 << 20, 256));
        assert_eq!(card.limits().shared_opt_in_bytes, 65536);
        assert_eq!(Card::default().limits().shared_bytes, 233_472);
    }
}
