//! The largest block that could be had, over time.

use highwater_allocator::{AddressPolicy, Device, Memory, Settings};
use highwater_snapshot::EntryId;

use super::run::Runner;
use super::study::{Study, machine};
use crate::replay::Step;

/// What could be had at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Largest {
    /// The entry before it; `None` if before the recording.
    pub entry: Option<EntryId>,
    /// The largest free block in the cache.
    pub cached_bytes: u64,
    /// The largest request that would be served: from the cache, or by what the driver and the limit still give.
    pub allocatable_bytes: Option<u64>,
}

impl Study {
    /// At up to `samples` moments: of each stretch of the program the moment at which the least could be had.
    pub fn largest_blocks(&self, settings: &Settings, memory: Memory, samples: usize) -> Vec<Largest> {
        let machine = machine(settings, memory, AddressPolicy::Driver);
        let mut runner = Runner::new(&self.program, &machine);
        let stretch = self.program.steps.len().div_ceil(samples.max(1)).max(1);
        let mut least: Vec<Largest> = Vec::with_capacity(samples);
        for steps in runner.steps().chunks(stretch) {
            let mut of_stretch: Option<Largest> = None;
            for step in steps {
                let ended = runner.step(step).is_err();
                if let Step::Alloc { entry, .. } = *step {
                    let cached_bytes = runner.allocator.largest_free_bytes();
                    let held = runner.allocator.statistics().reserved_bytes.all().current;
                    let room = machine
                        .limit_bytes
                        .map(|limit| limit.saturating_sub(held))
                        .or((memory != Memory::Ample).then(|| runner.allocator.device().free_bytes()));
                    let allocatable_bytes = room.map(|room| room.max(cached_bytes));
                    let now = Largest {
                        entry: (entry != u32::MAX).then(|| EntryId::new(entry)),
                        cached_bytes,
                        allocatable_bytes,
                    };
                    let size = |at: &Largest| at.allocatable_bytes.unwrap_or(at.cached_bytes);
                    if of_stretch.as_ref().is_none_or(|least| size(&now) < size(least)) {
                        of_stretch = Some(now);
                    }
                }
                if ended {
                    least.extend(of_stretch);
                    return least;
                }
            }
            least.extend(of_stretch);
        }
        least
    }
}
