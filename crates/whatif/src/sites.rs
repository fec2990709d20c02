//! What one call site's long-lived blocks cost: the peak without them in the way.

use highwater_allocator::{AddressPolicy, BlockState, Memory, Settings};
use highwater_analysis::callsite::{Site, Sites};
use highwater_analysis::device::DeviceAnalysis;
use highwater_analysis::parallel;
use rustc_hash::FxHashMap;

use super::run::{Runner, run};
use super::study::{Study, machine};
use crate::replay::{Program, Step};

/// How many sites are tried.
const TRIED: usize = 8;
/// A block is long-lived if it is held for at least this part of the program.
const LONG: usize = 4;

/// A call site whose long-lived blocks were moved out of the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SiteSaving {
    /// The call site.
    pub site: Site,
    /// A stack of it.
    pub stack: highwater_snapshot::StackId,
    /// Its long-lived blocks.
    pub blocks: usize,
    /// Their requested bytes.
    pub bytes: u64,
    /// How much lower the peak of reserved memory is if they are allocated before anything else.
    pub hoisted_saves_bytes: i64,
    /// The same if they come from a pool of their own.
    pub pooled_saves_bytes: i64,
}

impl SiteSaving {
    /// The better of the two.
    pub fn best_bytes(&self) -> i64 {
        self.hoisted_saves_bytes.max(self.pooled_saves_bytes)
    }
}

/// The long-lived blocks of one site.
struct Candidate {
    site: Site,
    stack: highwater_snapshot::StackId,
    slots: Vec<u32>,
    bytes: u64,
    /// Free memory in their segments at the peak.
    pinned_bytes: u64,
}

impl Study {
    /// The sites whose long-lived blocks pin the most free memory at the peak, the largest saving first.
    pub fn site_savings(&self, settings: &Settings, device: &DeviceAnalysis<'_>, sites: &Sites) -> Vec<SiteSaving> {
        let machine = machine(settings, Memory::Ample, AddressPolicy::Driver);
        let peak = |program: &Program| run(program, &machine).peak_reserved_bytes().cast_signed();
        let as_is = peak(&self.program);
        let candidates = self.candidates_of(settings, device, sites);
        let mut savings = parallel::map(&candidates, |candidate| SiteSaving {
            site: candidate.site,
            stack: candidate.stack,
            blocks: candidate.slots.len(),
            bytes: candidate.bytes,
            hoisted_saves_bytes: as_is - peak(&hoisted(&self.program, &candidate.slots)),
            pooled_saves_bytes: as_is - peak(&pooled(&self.program, &candidate.slots)),
        });
        savings.sort_by_key(|saving| std::cmp::Reverse(saving.best_bytes()));
        savings
    }

    fn candidates_of(&self, settings: &Settings, device: &DeviceAnalysis<'_>, sites: &Sites) -> Vec<Candidate> {
        let pinned = self.pinned_at_peak(settings);
        let long = self.long_lived();
        let mut by_site: FxHashMap<Site, Candidate> = FxHashMap::default();
        for (slot, lifetime) in device.lifetimes.rows.iter().enumerate() {
            if !long[slot] {
                continue;
            }
            let site = device.site(lifetime, sites);
            let candidate = by_site.entry(site).or_insert_with(|| Candidate {
                site,
                stack: lifetime.stack,
                slots: Vec::new(),
                bytes: 0,
                pinned_bytes: 0,
            });
            candidate.slots.push(highwater_analysis::lifetime::number(slot));
            candidate.bytes = candidate.bytes.saturating_add(lifetime.requested_bytes);
            candidate.pinned_bytes += pinned[slot];
        }
        let mut candidates: Vec<Candidate> = by_site.into_values().filter(|site| site.pinned_bytes > 0).collect();
        candidates.sort_by_key(|candidate| (std::cmp::Reverse(candidate.pinned_bytes), candidate.site));
        candidates.truncate(TRIED);
        candidates
    }

    /// For each slot its part of the free memory in its segment, at the moment of the highest reserved memory.
    fn pinned_at_peak(&self, settings: &Settings) -> Vec<u64> {
        let machine = machine(settings, Memory::Ample, AddressPolicy::Driver);
        let highest = run(&self.program, &machine).peak_reserved_bytes();
        let mut runner = Runner::new(&self.program, &machine);
        for step in runner.steps() {
            if runner.step(step).is_err() || runner.allocator.statistics().reserved_bytes.all().current == highest {
                break;
            }
        }
        let addresses = runner.held.iter().enumerate().filter_map(|(slot, block)| Some((slot, (*block)?)));
        let slots: FxHashMap<u64, usize> =
            addresses.map(|(slot, block)| (runner.allocator.address(block), slot)).collect();
        let mut pinned = vec![0; self.program.slots];
        for segment in runner.allocator.block_map() {
            let in_use = segment.blocks.iter().filter(|block| block.state != BlockState::Inactive).count() as u64;
            let free: u64 =
                segment.blocks.iter().filter(|b| b.state == BlockState::Inactive).map(|b| b.size_bytes).sum();
            for slot in segment.blocks.iter().filter_map(|block| slots.get(&block.address)) {
                pinned[*slot] = free.checked_div(in_use).unwrap_or(0);
            }
        }
        pinned
    }

    /// Whether a slot's block is held for a good part of the program.
    fn long_lived(&self) -> Vec<bool> {
        let steps = self.program.steps.len();
        let mut since = vec![usize::MAX; self.program.slots];
        let mut long = vec![false; self.program.slots];
        for (at, step) in self.program.steps.iter().enumerate() {
            match *step {
                Step::Alloc { slot, .. } => since[slot as usize] = at,
                Step::Free { slot } | Step::FreeLater { slot, .. } => {
                    let from = std::mem::replace(&mut since[slot as usize], usize::MAX);
                    long[slot as usize] = from != usize::MAX && at - from >= steps / LONG;
                }
                Step::Attempt { .. } | Step::Done { .. } | Step::EmptyCache { .. } => {}
            }
        }
        for (long, since) in long.iter_mut().zip(since) {
            *long |= since != usize::MAX && steps - since >= steps / LONG;
        }
        long
    }
}

fn is_among(slots: &[u32], step: &Step) -> bool {
    matches!(step, Step::Alloc { slot, .. } if slots.binary_search(slot).is_ok())
}

/// The program with these blocks allocated before anything else.
fn hoisted(program: &Program, slots: &[u32]) -> Program {
    let (first, rest): (Vec<Step>, Vec<Step>) = program.steps.iter().partition(|step| is_among(slots, step));
    Program { steps: [first, rest].concat(), ..program.clone() }
}

/// The program with these blocks in a private pool of their own.
fn pooled(program: &Program, slots: &[u32]) -> Program {
    let mut program = program.clone();
    program.pools = program.pools.saturating_add(1);
    let own = program.pools;
    for step in &mut program.steps {
        if is_among(slots, step)
            && let Step::Alloc { pool, .. } = step
        {
            *pool = own;
        }
    }
    program
}
