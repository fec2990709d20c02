//! What the parent process wants this GPU to be: environment variables, read once.
//!
//! | Variable | Holds | Without it |
//! | --- | --- | --- |
//! | `HIGHWATER_NULLGPU_CARD` | the card, as `key=value` pairs between semicolons (see [`Card`]) | an H200 |
//! | `HIGHWATER_NULLGPU_DEVICES` | how many of them | 1 |
//! | `HIGHWATER_NULLGPU_CONTEXT` | bytes of a card that programs do not get | what an H200 takes: 527 MiB, and more as kernels are loaded |
//! | `HIGHWATER_NULLGPU_CUDA` | the CUDA version as a number: 13000 is 13.0 | 13000 |
//! | `HIGHWATER_NULLGPU_CUDNN` | the cuDNN version as a number: 91900 is 9.19.0 | 91900 |
//! | `HIGHWATER_NULLGPU_ENGINES` | the socket of the process that has the installed cuDNN loaded | convolutions want what was learned |
//! | `HIGHWATER_NULLGPU_NCCL` | the NCCL version as a number: 22809 is 2.28.9 | 22809 |
//! | `HIGHWATER_NULLGPU_PARENT` | the process whose own children end when it does (`parent`) | they go on |
//! | `HIGHWATER_NULLGPU_RANKS` | the directory where ranks meet | communicators are alone, and as if all of their ranks were alike |
//! | `HIGHWATER_NULLGPU_TIMING` | when work is done: `card`, `at-once`, `late`, when somebody waits for it, or `late-after-first-step` | `at-once` |
//! | `HIGHWATER_NULLGPU_TRACE` | a file to which every process adds a line of JSON when it ends | nothing is written |

use std::path::PathBuf;
use std::sync::OnceLock;

use highwater_driver::Multiprocessor;

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
    pub(crate) engines: Option<PathBuf>,
    pub(crate) nccl: i32,
    pub(crate) trace: Option<PathBuf>,
    pub(crate) ranks: Option<PathBuf>,
    pub(crate) timing: Timing,
}

/// When the work of a stream is done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Timing {
    /// As soon as it is asked for.
    #[default]
    AtOnce,
    /// When a card would have done it.
    Card,
    /// When somebody waits for it.
    Late,
    /// At once until an optimizer has stepped, then late: in its first step a host loads kernels, and the card is done before it.
    LateAfterFirstStep,
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
    /// An H200.
    fn default() -> Self {
        let card = highwater_driver::Card::named("h200").unwrap_or(&highwater_driver::CARDS[0]);
        let signed = |number: u32| i32::try_from(number).unwrap_or(i32::MAX);
        Card {
            name: card.name.to_owned(),
            memory_bytes: card.memory_bytes,
            major: signed(card.compute_capability.0),
            minor: signed(card.compute_capability.1),
            multiprocessors: signed(card.multiprocessors),
            l2_bytes: i32::try_from(card.l2_bytes).unwrap_or(i32::MAX),
            bus_bits: signed(card.bus_bits),
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
    pub(crate) fn limits(&self) -> Multiprocessor {
        Multiprocessor::of((self.major.unsigned_abs(), self.minor.unsigned_abs()))
    }
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
        engines: text("ENGINES").filter(|path| !path.is_empty()).map(PathBuf::from),
        nccl: number("NCCL", 22_809),
        trace: text("TRACE").filter(|path| !path.is_empty()).map(PathBuf::from),
        timing: match text("TIMING").as_deref() {
            Some("card") => Timing::Card,
            Some("late") => Timing::Late,
            Some("late-after-first-step") => Timing::LateAfterFirstStep,
            _ => Timing::AtOnce,
        },
        ranks: text("RANKS").filter(|path| !path.is_empty()).map(PathBuf::from),
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
        assert_eq!(card.limits(), Multiprocessor::of((7, 5)));
        assert_eq!(Card::default().multiprocessors, 132);
    }
}
