//! What each `empty_cache()` of the program cost, and what it was good for.

use highwater_allocator::{AddressPolicy, Memory, Settings};
use highwater_analysis::parallel;
use highwater_snapshot::EntryId;

use super::run::run;
use super::study::{Study, machine};
use crate::replay::{Program, Step};

/// At most so many are looked at one by one.
const MOST: usize = 16;

/// One call, or all together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EmptyCache {
    /// The first entry that it caused; `None` stands for all calls together.
    pub entry: Option<EntryId>,
    /// The number of calls.
    pub calls: usize,
    /// Calls that took memory from the driver less without it: each waits for the device.
    pub device_allocs: i64,
    /// How much higher the peak of reserved memory would be without it; negative if lower.
    pub saved_bytes: i64,
}

impl Study {
    /// All calls together, and each of the first ones, under these settings with memory without end.
    pub fn empty_caches(&self, settings: &Settings) -> Vec<EmptyCache> {
        let calls: Vec<usize> = (0..self.program.steps.len())
            .filter(|&at| matches!(self.program.steps[at], Step::EmptyCache { .. }))
            .collect();
        if calls.is_empty() {
            return Vec::new();
        }
        let mut left_out: Vec<Option<usize>> = vec![None];
        if calls.len() > 1 {
            left_out.extend(calls.iter().take(MOST).map(|&at| Some(at)));
        }
        let outcome = |program: &Program| {
            let run = run(program, &machine(settings, Memory::Ample, AddressPolicy::Driver));
            (run.peak_reserved_bytes().cast_signed(), run.statistics.num_device_alloc.cast_signed())
        };
        let with = outcome(&self.program);
        parallel::map(&left_out, |&one| {
            let mut program = self.program.clone();
            match one {
                Some(at) => {
                    program.steps.remove(at);
                }
                None => program.steps.retain(|step| !matches!(step, Step::EmptyCache { .. })),
            }
            let without = outcome(&program);
            let entry = one.and_then(|at| match self.program.steps[at] {
                Step::EmptyCache { entry } => Some(EntryId::new(entry)),
                _ => None,
            });
            EmptyCache {
                entry,
                calls: if one.is_some() { 1 } else { calls.len() },
                device_allocs: with.1 - without.1,
                saved_bytes: without.0 - with.0,
            }
        })
    }
}
