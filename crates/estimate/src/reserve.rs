//! From what is requested to what is allocated and reserved: the real allocator's rules on the requests of the run.

use highwater_allocator::{AddressPolicy, Allocator, Settings, TorchVersion, VirtualDevice};

use crate::setup::TorchRelease;
use crate::tape::{Books, Event};

/// More memory than any card has: requests do not fail.
const DEVICE_BYTES: u64 = 1 << 46;

/// Peaks of a run, above and with what was there before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reserve {
    /// The peak of allocated bytes above the workspaces.
    pub(crate) allocated: u64,
    /// The peak of reserved bytes, workspaces included.
    pub(crate) reserved: u64,
}

/// Runs the requests through the allocator; `None` where they are beyond any card.
pub(crate) fn replay(books: &Books, workspaces: &[u64], torch: TorchRelease) -> Option<Reserve> {
    if books.allocations.iter().any(|allocation| allocation.bytes >= DEVICE_BYTES) {
        return None;
    }
    let version = match torch {
        TorchRelease::V2_11 => TorchVersion::v2(11),
        TorchRelease::V2_15 => TorchVersion::v2(15),
    };
    let device = VirtualDevice::new(DEVICE_BYTES, 0, AddressPolicy::Driver);
    let mut allocator = Allocator::new(device, Settings::new(version), ());
    for &workspace in workspaces {
        allocator.malloc(workspace, 0).ok()?;
    }
    let base = allocator.statistics().allocated_bytes.all().current;
    let mut blocks = vec![None; books.allocations.len()];
    for event in &books.events {
        match *event {
            Event::Begin(_) => {}
            Event::Alloc(id) => {
                let allocation = &books.allocations[id as usize];
                let block = allocator.malloc(allocation.bytes, allocation.stream).ok()?;
                blocks[id as usize] = block;
            }
            Event::Free(id) => {
                if let Some(block) = blocks[id as usize].take() {
                    allocator.free(block);
                }
            }
        }
    }
    let statistics = allocator.statistics();
    Some(Reserve {
        allocated: statistics.allocated_bytes.all().peak.saturating_sub(base),
        reserved: statistics.reserved_bytes.all().peak,
    })
}
