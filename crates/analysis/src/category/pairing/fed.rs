//! What the program feeds to modules: batches that come and go.

use highwater_snapshot::StackId;
use rustc_hash::{FxHashMap, FxHashSet};

use super::alloc;
use crate::category::case::BEHIND_OUTPUT;
use crate::category::course::Course;
use crate::category::origin::Origin;
use crate::lifetime::Lifetimes;

/// Smaller blocks may be anything: counters, masks, losses.
const MIN_BYTES: u64 = 4096;

/// What one place makes and frees so often stays for an iteration to come: what a leak keeps is never freed.
const MIN_FED: usize = 2;

/// The blocks that the program makes before a forward pass and frees after it.
#[derive(Clone, Debug, Default)]
pub(super) struct Fed {
    /// Their sizes.
    sizes: FxHashSet<u64>,
    /// Places that make several of a size so.
    places: FxHashSet<(StackId, u64)>,
}

impl Fed {
    pub(super) fn new(lifetimes: &Lifetimes, course: &Course, told: &impl Fn(usize) -> Origin) -> Self {
        let mut counts: FxHashMap<(StackId, u64), usize> = FxHashMap::default();
        if course.passes.is_empty() {
            return Self::default();
        }
        for (row, lifetime) in lifetimes.rows.iter().enumerate() {
            let size = lifetime.requested_bytes;
            if size < MIN_BYTES || lifetime.alloc().is_none() || told(row) != Origin::Program {
                continue;
            }
            let (alloc, freed) = (alloc(lifetime), course.freed(lifetime));
            // A thread may fetch the next batch while modules run.
            let is_amid = course.module_after(course.turn_before(alloc)).is_some_and(|module| module < alloc);
            let meets_layers = course.modules_between(alloc, freed) > BEHIND_OUTPUT;
            let meets_pass = course.pass_after(alloc).is_some_and(|pass| pass.end <= freed);
            if (!is_amid || meets_layers) && meets_pass && course.pass_at(freed).is_none() {
                *counts.entry((lifetime.stack, size)).or_default() += 1;
            }
        }
        let fed = |least: usize| counts.iter().filter(move |(_, freed)| **freed >= least).map(|(&of, _)| of);
        Self { sizes: fed(1).map(|(_, size)| size).collect(), places: fed(MIN_FED).collect() }
    }

    /// Whether a block of a size is like those: made at the place of such, or before the recording.
    pub(super) fn is_like(&self, size_bytes: u64, stack: Option<StackId>) -> bool {
        match stack {
            Some(stack) => self.places.contains(&(stack, size_bytes)),
            None => self.sizes.contains(&size_bytes),
        }
    }
}
