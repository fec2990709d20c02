//! Who stood in the way of a request that failed in a run.

use highwater_allocator::sizes::{SMALL_MAX_BYTES, SMALL_SEGMENT_BYTES};
use highwater_allocator::{AddressPolicy, BlockState, Device, Memory, OutOfMemory, Region, Settings};
use highwater_analysis::callsite::{SiteTotal, Sites, totals};
use highwater_analysis::device::DeviceAnalysis;
use rustc_hash::FxHashMap;

use super::pinning::{self, Block, Failure, Headroom, Pinning, Request, Segment, Way};
use super::run::{Machine, Outcome, Runner};
use super::study::{Study, machine};
use crate::replay::Step;

/// The fewest live blocks without which a failed request would have been served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pinned {
    /// Their number.
    pub blocks: usize,
    /// Their bytes.
    pub bytes: u64,
    /// Whether the request would take their place; else memory would go back to the driver.
    pub in_place: bool,
    /// Whether fewer are certainly not enough.
    pub is_smallest: bool,
    /// By call site, the largest first.
    pub sites: Vec<SiteTotal>,
}

/// A run at the moment when its first request fails.
pub(super) struct Failed<'a> {
    pub(super) runner: Runner<'a>,
    pub(super) failure: OutOfMemory,
    /// The stream of the request.
    pub(super) stream: u64,
    /// Its pool; 0 is the default one.
    pub(super) pool: u64,
}

impl Study {
    /// Runs the program until a request fails; `None` if none does.
    pub(super) fn failed(&self, machine: &Machine) -> Option<Failed<'_>> {
        let mut runner = Runner::new(&self.program, machine);
        let failed = runner.steps().iter().find(|step| {
            let has_ended = runner.step(step).is_err();
            has_ended || !runner.outcome().fits()
        })?;
        let (Step::Alloc { stream, pool, .. } | Step::Attempt { stream, pool, .. }) = *failed else {
            return None;
        };
        let Outcome::OutOfMemory { failure, .. } = *runner.outcome() else {
            return None;
        };
        let stream = self.program.streams[stream as usize];
        Some(Failed { runner, failure, stream, pool: u64::from(pool) })
    }

    /// What pinned the memory when a run failed; `None` if it does not fail, or nothing could have helped.
    pub fn pinned(
        &self,
        settings: &Settings,
        memory: Memory,
        device: &DeviceAnalysis<'_>,
        sites: &Sites,
    ) -> Option<Pinned> {
        let machine = machine(settings, memory, AddressPolicy::Driver);
        let Failed { runner, failure, stream, pool } = self.failed(&machine)?;
        let is_small = failure.rounded_bytes <= SMALL_MAX_BYTES;
        let page = if is_small { SMALL_SEGMENT_BYTES } else { settings.large_segment_bytes };
        let slots = slots_by_address(&runner);
        let description = Failure {
            request: Request {
                size_bytes: failure.rounded_bytes,
                segment_bytes: failure.segment_bytes,
                page_bytes: settings.expandable_segments.then_some(page),
            },
            headroom: Headroom {
                device_bytes: runner.allocator.device().free_bytes(),
                limit_bytes: machine.limit_bytes.map(|limit| limit.saturating_sub(failure.reserved_bytes)),
            },
            segments: runner
                .allocator
                .regions()
                .iter()
                .map(|region| Segment {
                    is_usable: region.stream == stream
                        && region.pool == pool
                        && region.is_large != is_small
                        && region.page_bytes.is_some() == settings.expandable_segments,
                    is_releasable: region.pool == 0,
                    page_bytes: region.page_bytes,
                    blocks: blocks(region, &slots),
                })
                .collect(),
        };
        let found = pinning::pinning(&description)?;
        Some(summary(&found, device, sites))
    }
}

fn slots_by_address(runner: &Runner<'_>) -> FxHashMap<u64, u32> {
    let held = runner.held.iter().enumerate().filter_map(|(slot, block)| Some((slot, (*block)?)));
    held.map(|(slot, block)| (runner.allocator.address(block), highwater_analysis::lifetime::number(slot))).collect()
}

/// Names that stand for blocks which wait for another stream: the program holds them no longer.
const NOBODY: u32 = u32::MAX;

fn blocks(region: &Region, slots: &FxHashMap<u64, u32>) -> Vec<Block> {
    let state = |address: u64, state: Option<BlockState>| match state {
        None => pinning::BlockState::Unmapped,
        Some(BlockState::Inactive) => pinning::BlockState::Free,
        Some(BlockState::Allocated | BlockState::AwaitingFree) => {
            pinning::BlockState::Live(slots.get(&address).copied().unwrap_or(NOBODY))
        }
    };
    let parts = region.parts.iter();
    parts.map(|(block, of)| Block { bytes: block.size_bytes, state: state(block.address, *of) }).collect()
}

fn summary(found: &Pinning, device: &DeviceAnalysis<'_>, sites: &Sites) -> Pinned {
    let lifetimes = found.blocks.iter().filter_map(|&slot| device.lifetimes.rows.get(slot as usize));
    Pinned {
        blocks: found.blocks.len(),
        bytes: found.bytes,
        in_place: matches!(found.way, Way::Window { .. }),
        is_smallest: found.is_smallest,
        sites: totals(lifetimes.map(|l| (l.stack, device.site(l, sites), l.requested_bytes, l.requested_bytes))),
    }
}
