//! Where the driver puts segments: rules to choose from, for PyTorch cannot know and its decisions may depend on it.

use std::collections::{BTreeSet, VecDeque};
use std::fmt;
use std::str::FromStr;

use highwater_driver::{Context, DriverAddressSpace, RESERVATION_ALIGNMENT};
use rustc_hash::FxHashMap;

/// Slots of the random policy.
const SLOT: u64 = 4 << 30;
const SLOTS: u64 = 1 << 13;
/// The span that descending addresses start from, in which the policies that ascend stay.
const SPAN: u64 = 1 << 46;
/// The end of all addresses. No device reaches it, but a program that asks for most of a pebibyte again and again does.
const TOP: u64 = 1 << 62;
/// Where the ranges begin that a script does not have.
const BESIDE_SCRIPT: u64 = 1 << 44;
/// Reservations begin here, far above the driver's segments. Segments go here, too, once the space below is full. No recording has
/// addresses this high.
const BESIDE_DRIVER: u64 = 1 << 47;
/// Under which size a script keeps its reservations.
const RESERVATION: u64 = 1;

/// A rule for addresses.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum AddressPolicy {
    /// As NVIDIA's driver does it ([`DriverAddressSpace`]) in a process that has loaded no kernel. A program that loads some has
    /// the driver take addresses between its own; when, nobody told.
    #[default]
    Driver,
    /// The lowest hole that is large enough, else the end.
    FirstFit,
    /// Directly below the last one, never used again.
    Descending,
    /// Directly above the last one, never used again.
    Bump,
    /// A free slot of 4 GiB drawn from this seed.
    Random(u64),
    /// Addresses that a driver once gave: a segment takes the first unused range of its size, a reservation the first of
    /// 0 bytes. What the script lacks goes to the lowest hole, from 2^44 on.
    Script(Vec<ScriptedRange>),
}

/// Where a driver once put a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScriptedRange {
    /// Of a segment, a multiple of 2 MiB; 0 stands for a reservation of whatever size.
    pub bytes: u64,
    /// First byte.
    pub address: u64,
}

/// A text that names no policy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not an address policy: `driver`, `first-fit`, `descending`, `bump` or `random:SEED`")]
pub struct UnknownPolicy(String);

impl FromStr for AddressPolicy {
    type Err = UnknownPolicy;

    fn from_str(text: &str) -> Result<Self, UnknownPolicy> {
        let unknown = || UnknownPolicy(text.to_owned());
        match text {
            "driver" => Ok(Self::Driver),
            "first-fit" => Ok(Self::FirstFit),
            "descending" => Ok(Self::Descending),
            "bump" => Ok(Self::Bump),
            _ => {
                let seed = text.strip_prefix("random:").ok_or_else(unknown)?;
                Ok(Self::Random(seed.parse().map_err(|_| unknown())?))
            }
        }
    }
}

impl fmt::Display for AddressPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Driver => f.write_str("driver"),
            Self::FirstFit => f.write_str("first-fit"),
            Self::Descending => f.write_str("descending"),
            Self::Bump => f.write_str("bump"),
            Self::Random(seed) => write!(f, "random:{seed}"),
            Self::Script(_) => f.write_str("script"),
        }
    }
}

/// A free range.
#[derive(Clone, Copy, Debug)]
struct Hole {
    address: u64,
    bytes: u64,
}

/// A policy without what only one of them needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    Driver,
    FirstFit,
    Descending,
    Bump,
    Random,
    Script,
}

/// The addresses of a device. Ranges are multiples of 2 MiB, and start at 0.
#[derive(Clone, Debug)]
pub(crate) struct AddressSpace {
    rule: Rule,
    /// The segments that the driver handed out, and its own memory.
    driver: DriverAddressSpace,
    /// The end of what ascending policies handed out.
    end: u64,
    /// Free ranges below the end, by address; none touches another.
    holes: Vec<Hole>,
    /// The lowest address that the descending policy handed out.
    low: u64,
    /// How far down it may go.
    floor: u64,
    random: u64,
    /// Slots in use.
    slots: BTreeSet<u64>,
    /// Unused addresses of a script by size, in its order.
    script: FxHashMap<u64, VecDeque<u64>>,
    /// Ranges that the script did not have.
    unscripted: u64,
}

impl AddressSpace {
    pub(crate) fn new(policy: AddressPolicy) -> Self {
        let mut space = Self {
            rule: Rule::FirstFit,
            driver: DriverAddressSpace::new(0, SPAN),
            end: 0,
            holes: Vec::new(),
            low: SPAN,
            floor: 0,
            random: 88_172_645_463_325_252,
            slots: BTreeSet::new(),
            script: FxHashMap::default(),
            unscripted: 0,
        };
        space.rule = match policy {
            AddressPolicy::Driver => {
                Context::new(&mut space.driver);
                space.end = BESIDE_DRIVER;
                Rule::Driver
            }
            AddressPolicy::FirstFit => Rule::FirstFit,
            AddressPolicy::Descending => Rule::Descending,
            AddressPolicy::Bump => Rule::Bump,
            AddressPolicy::Random(seed) => {
                space.random ^= seed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
                Rule::Random
            }
            AddressPolicy::Script(ranges) => {
                for ScriptedRange { bytes, address } in ranges {
                    space.script.entry(bytes.max(RESERVATION)).or_default().push_back(address);
                }
                space.end = BESIDE_SCRIPT;
                Rule::Script
            }
        };
        space
    }

    /// How many ranges a script did not have.
    pub(crate) fn unscripted(&self) -> u64 {
        self.unscripted
    }

    /// A range for a segment; `None` when addresses have run out.
    pub(crate) fn get_segment(&mut self, bytes: u64) -> Option<u64> {
        match self.rule {
            Rule::Random if bytes <= SLOT => self.random_slot(),
            Rule::Script => self.scripted(bytes, bytes),
            Rule::Driver => self.driver.take(bytes).or_else(|| self.bump(bytes)),
            _ => self.get_reservation(bytes),
        }
    }

    /// A range for an expandable segment; `None` when addresses have run out.
    pub(crate) fn get_reservation(&mut self, bytes: u64) -> Option<u64> {
        match self.rule {
            // One above the other.
            Rule::Driver => self.bump(bytes.checked_next_multiple_of(RESERVATION_ALIGNMENT)?),
            Rule::FirstFit => self.first_fit(bytes),
            Rule::Bump | Rule::Random => self.bump(bytes),
            Rule::Descending => self.descend(bytes),
            Rule::Script => self.scripted(RESERVATION, bytes),
        }
    }

    pub(crate) fn give_back(&mut self, address: u64, bytes: u64) {
        match self.rule {
            // Nothing where it is a reservation, or was there before.
            Rule::Driver => _ = self.driver.give_back(address),
            Rule::FirstFit => self.add_hole(Hole { address, bytes }),
            Rule::Random => {
                self.slots.remove(&address);
            }
            // A scripted address is not reused: the script says what comes next.
            Rule::Script if (BESIDE_SCRIPT..self.end).contains(&address) => self.add_hole(Hole { address, bytes }),
            Rule::Script | Rule::Descending | Rule::Bump => {}
        }
    }

    /// The next address under a script's `size`, else a hole for `bytes`.
    fn scripted(&mut self, size: u64, bytes: u64) -> Option<u64> {
        if let Some(address) = self.script.get_mut(&size).and_then(VecDeque::pop_front) {
            return Some(address);
        }
        self.unscripted += 1;
        self.first_fit(bytes)
    }

    fn bump(&mut self, bytes: u64) -> Option<u64> {
        let mut address = self.end;
        let slots = SPAN..SPAN + SLOTS * SLOT;
        if self.rule == Rule::Random && address < slots.end && bytes > slots.start.saturating_sub(address) {
            address = slots.end;
        }
        self.end = address.checked_add(bytes).filter(|&end| end <= TOP)?;
        Some(address)
    }

    /// Below the last range; once nothing is left there, on from [`TOP`], down to where it began.
    fn descend(&mut self, bytes: u64) -> Option<u64> {
        if self.floor == 0 && bytes > self.low {
            (self.low, self.floor) = (TOP, SPAN);
        }
        self.low = self.low.checked_sub(bytes).filter(|&address| address >= self.floor)?;
        Some(self.low)
    }

    fn first_fit(&mut self, bytes: u64) -> Option<u64> {
        let Some(index) = self.holes.iter().position(|hole| hole.bytes >= bytes) else {
            return self.bump(bytes);
        };
        let hole = &mut self.holes[index];
        let address = hole.address;
        hole.address += bytes;
        hole.bytes -= bytes;
        if hole.bytes == 0 {
            self.holes.remove(index);
        }
        Some(address)
    }

    fn add_hole(&mut self, hole: Hole) {
        let mut index = self.holes.partition_point(|other| other.address < hole.address);
        self.holes.insert(index, hole);
        if index > 0 && self.holes[index - 1].address + self.holes[index - 1].bytes == hole.address {
            self.holes[index - 1].bytes += hole.bytes;
            self.holes.remove(index);
            index -= 1;
        }
        let Hole { address, bytes } = self.holes[index];
        if self.holes.get(index + 1).is_some_and(|next| address + bytes == next.address) {
            self.holes[index].bytes += self.holes[index + 1].bytes;
            self.holes.remove(index + 1);
        }
    }

    /// Draws until a slot is free. There are more slots than a device has room for segments of half a slot.
    fn random_slot(&mut self) -> Option<u64> {
        loop {
            self.random ^= self.random << 13;
            self.random ^= self.random >> 7;
            self.random ^= self.random << 17;
            let address = SPAN + (self.random % SLOTS) * SLOT;
            if self.slots.insert(address) {
                return Some(address);
            }
            if self.slots.len() as u64 >= SLOTS {
                return self.bump(SLOT);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn first_fit_takes_the_lowest_hole_and_merges() {
        let mut space = AddressSpace::new(AddressPolicy::FirstFit);
        let addresses: Vec<u64> = (0..4).filter_map(|_| space.get_segment(2 * MIB)).collect();
        assert_eq!(addresses, [0, 2 * MIB, 4 * MIB, 6 * MIB]);
        for address in [0, 4 * MIB, 2 * MIB] {
            space.give_back(address, 2 * MIB);
        }
        assert_eq!(space.get_segment(8 * MIB), Some(8 * MIB), "no hole of this size");
        assert_eq!(space.get_segment(6 * MIB), Some(0), "three holes became one");
    }

    #[test]
    fn the_driver_puts_reservations_aside_and_has_some_addresses_itself() {
        let mut space = AddressSpace::new(AddressPolicy::Driver);
        // Where the first local memory of the context ends: the first offset in `testdata/driver/addresses.txt` after `=` counts from there.
        let end = SPAN - 96 * MIB;
        assert_eq!(space.get_segment(2 * MIB), Some(end - 2 * MIB));
        assert_eq!(space.get_segment(20 * MIB), Some(end + 72 * MIB));
        assert_eq!(space.get_reservation(20 * MIB), Some(BESIDE_DRIVER));
        assert_eq!(space.get_reservation(2 * MIB), Some(BESIDE_DRIVER + RESERVATION_ALIGNMENT));
        space.give_back(BESIDE_DRIVER, 20 * MIB);
        space.give_back(end - 2 * MIB, 2 * MIB);
        assert_eq!(space.get_reservation(2 * MIB), Some(BESIDE_DRIVER + 2 * RESERVATION_ALIGNMENT), "never used again");
        assert_eq!(space.get_segment(MIB), Some(end - 2 * MIB), "used again");
    }

    #[test]
    fn a_script_is_followed_by_size_and_what_it_lacks_goes_elsewhere() {
        let rows = [(2, 70), (0, 90), (4, 50), (2, 10)];
        let ranges = rows.map(|(bytes, address)| ScriptedRange { bytes: bytes * MIB, address: address * MIB });
        let mut space = AddressSpace::new(AddressPolicy::Script(ranges.into()));
        assert_eq!(space.get_segment(2 * MIB), Some(70 * MIB));
        assert_eq!(space.get_segment(4 * MIB), Some(50 * MIB));
        space.give_back(70 * MIB, 2 * MIB);
        assert_eq!(space.get_segment(2 * MIB), Some(10 * MIB), "the next row, not the hole");
        assert_eq!(space.get_reservation(600 * MIB), Some(90 * MIB), "a reservation of any size");
        assert_eq!(space.unscripted(), 0);
        assert_eq!(space.get_segment(2 * MIB), Some(BESIDE_SCRIPT));
        space.give_back(BESIDE_SCRIPT, 2 * MIB);
        assert_eq!(space.get_reservation(2 * MIB), Some(BESIDE_SCRIPT), "here holes are used again");
        assert_eq!(space.unscripted(), 2);
    }

    #[test]
    fn no_range_lies_across_the_end_of_all_addresses() {
        const LARGE: u64 = 3 << 44;
        let first = AddressSpace::new(AddressPolicy::Random(1)).get_segment(MIB).unwrap();
        let mut space = AddressSpace::new(AddressPolicy::Random(1));
        space.get_segment(MIB);
        let overlapping = |&address: &u64| address < first + SLOT && address + LARGE > first;
        assert_eq!(std::iter::from_fn(|| space.get_segment(LARGE)).find(overlapping), None, "a slot is left out");
        for policy in [
            AddressPolicy::Driver,
            AddressPolicy::FirstFit,
            AddressPolicy::Descending,
            AddressPolicy::Bump,
            AddressPolicy::Random(1),
        ] {
            let mut space = AddressSpace::new(policy.clone());
            let mut ranges: Vec<u64> = std::iter::from_fn(|| space.get_segment(LARGE)).collect();
            ranges.sort_unstable();
            let kept_free = if policy == AddressPolicy::Driver { BESIDE_DRIVER } else { 0 };
            assert!(ranges.len() as u64 > (TOP - kept_free) / LARGE - 8, "{policy}: nearly every address is used");
            assert!(ranges.windows(2).all(|pair| pair[0] + LARGE <= pair[1]), "{policy}: ranges overlap");
            assert!(ranges.iter().all(|address| address + LARGE <= TOP), "{policy}");
        }
    }

    #[test]
    fn a_policy_reads_back_as_written() {
        for text in ["driver", "first-fit", "descending", "bump", "random:7"] {
            assert_eq!(text.parse::<AddressPolicy>().unwrap().to_string(), text);
        }
        insta::assert_snapshot!("random".parse::<AddressPolicy>().unwrap_err(), @"`random` is not an address policy: `driver`, `first-fit`, `descending`, `bump` or `random:SEED`");
    }
}
