//! A device that is only accounts: a capacity, and a rule for where the driver puts segments.

use std::collections::BTreeSet;

use highwater_driver::GRANULARITY;

use crate::addresses::{AddressPolicy, AddressSpace};
use crate::device::Device;

/// A device without a GPU.
///
/// # Source
/// The fake runtime of the oracle, `oracle/fake_cudart.c`.
#[derive(Clone, Debug)]
pub struct VirtualDevice {
    total_bytes: u64,
    /// Held by others, the CUDA context among them.
    outside_bytes: u64,
    used_bytes: u64,
    addresses: AddressSpace,
    /// Streams whose work is not done.
    busy: BTreeSet<u64>,
}

impl VirtualDevice {
    /// A device of `total_bytes`, of which others hold `outside_bytes`.
    pub fn new(total_bytes: u64, outside_bytes: u64, policy: AddressPolicy) -> Self {
        Self {
            total_bytes,
            outside_bytes: outside_bytes.min(total_bytes),
            used_bytes: 0,
            addresses: AddressSpace::new(policy),
            busy: BTreeSet::new(),
        }
    }

    /// Says whether the work of a stream is done; it is until told otherwise.
    pub fn set_done(&mut self, stream: u64, done: bool) {
        if done {
            self.busy.remove(&stream);
        } else {
            self.busy.insert(stream);
        }
    }

    /// Counts memory that an allocator holds from the start, as far as there is so much.
    pub fn claim(&mut self, bytes: u64) {
        self.used_bytes += bytes.min(self.free_bytes());
    }

    /// How many ranges went elsewhere because an [`AddressPolicy::Script`] did not have them.
    pub fn unscripted_ranges(&self) -> u64 {
        self.addresses.unscripted()
    }

    fn take(&mut self, bytes: u64) -> bool {
        let fits = bytes <= self.free_bytes();
        if fits {
            self.used_bytes += bytes;
        }
        fits
    }
}

fn in_units(bytes: u64) -> u64 {
    bytes.next_multiple_of(GRANULARITY)
}

impl Device for VirtualDevice {
    fn total_bytes(&self) -> u64 {
        self.total_bytes
    }

    fn free_bytes(&self) -> u64 {
        self.total_bytes - self.outside_bytes - self.used_bytes
    }

    fn malloc(&mut self, bytes: u64) -> Option<u64> {
        let bytes = in_units(bytes);
        if bytes > self.free_bytes() {
            return None;
        }
        let address = self.addresses.get_segment(bytes)?;
        self.used_bytes += bytes;
        Some(address)
    }

    fn free(&mut self, address: u64, bytes: u64) {
        self.used_bytes = self.used_bytes.saturating_sub(in_units(bytes));
        self.addresses.give_back(address, in_units(bytes));
    }

    fn reserve(&mut self, bytes: u64) -> Option<u64> {
        self.addresses.get_reservation(in_units(bytes))
    }

    fn release(&mut self, address: u64, bytes: u64) {
        self.addresses.give_back(address, in_units(bytes));
    }

    fn map(&mut self, _: u64, bytes: u64) -> bool {
        self.take(bytes)
    }

    fn unmap(&mut self, _: u64, bytes: u64) {
        self.used_bytes = self.used_bytes.saturating_sub(bytes);
    }

    fn is_done(&mut self, stream: u64) -> bool {
        self.busy.is_empty() || !self.busy.contains(&stream)
    }
}
