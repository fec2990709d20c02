//! Steps of the optimizer that ran out of memory: which of their blocks were to stay.
//!
//! An exception frees the state that a step was making together with its intermediates, and a dump at the error holds both. So the
//! end of such a step tells nothing, and the code that made a block has to.

use highwater_snapshot::StackId;
use rustc_hash::{FxHashMap, FxHashSet};

use super::course::Course;
use super::origin::{Origin, StackOrigins};
use crate::lifetime::{Lifetime, Lifetimes};

/// Blocks that were there when the optimizer's step that made them ran out of memory.
#[derive(Clone, Debug, Default)]
pub(crate) struct Unfinished {
    /// By row, whether it is state.
    rows: FxHashMap<usize, bool>,
}

impl Unfinished {
    pub(crate) fn new(
        lifetimes: &Lifetimes,
        course: &Course,
        told: impl Fn(usize) -> Origin,
        stacks: &StackOrigins,
    ) -> Self {
        let mut unfinished = Self::default();
        if course.failed_steps.is_empty() {
            return unfinished;
        }
        let mut by_failure: FxHashMap<u32, Vec<usize>> = FxHashMap::default();
        let mut kept = FxHashSet::default();
        for (row, lifetime) in lifetimes.rows.iter().enumerate().filter(|&(row, _)| told(row) == Origin::Optimizer) {
            let Some(alloc) = lifetime.alloc().map(highwater_snapshot::EntryId::get) else { continue };
            let freed = course.freed(lifetime);
            match course.failed_step(alloc) {
                Some(failure) if failure < freed => by_failure.entry(failure).or_default().push(row),
                _ if course.outlives_step(alloc, freed) => {
                    kept.insert(stacks.place(lifetime.stack));
                }
                _ => {}
            }
        }
        for (failure, rows) in by_failure {
            unfinished.add(&Failed { lifetimes, course, stacks, kept: &kept, failure }, &rows);
        }
        unfinished
    }

    /// Whether a block is the optimizer's state; `None` unless it was there when the step that made it ran out of memory.
    pub(crate) fn is_state(&self, row: usize) -> Option<bool> {
        self.rows.get(&row).copied()
    }

    fn add(&mut self, failed: &Failed<'_>, rows: &[usize]) {
        let of = |&row: &usize| &failed.lifetimes.rows[row];
        let is_unwound = rows.iter().any(|row| failed.is_freed(of(row)));
        let is_state = |row: &usize| failed.is_told(of(row)) || (is_unwound && !failed.is_freed(of(row)));
        // State comes before what is computed with it. Of a first step whose code does not tell, what is made last is state.
        let last = failed.is_first() && !rows.iter().any(is_state);
        let last = rows.last().filter(|_| last).map(|row| failed.stacks.place(of(row).stack));
        for row in rows {
            self.rows.insert(*row, is_state(row) || last == Some(failed.stacks.place(of(row).stack)));
        }
    }
}

/// A step that ran out of memory.
struct Failed<'a> {
    lifetimes: &'a Lifetimes,
    course: &'a Course,
    stacks: &'a StackOrigins,
    /// Where other steps made what outlived them.
    kept: &'a FxHashSet<StackId>,
    failure: u32,
}

impl Failed<'_> {
    /// Whether the code that makes it shows that it is to stay.
    fn is_told(&self, lifetime: &Lifetime) -> bool {
        self.stacks.makes_state(lifetime.stack) || self.kept.contains(&self.stacks.place(lifetime.stack))
    }

    /// Whether it is gone before the program goes on, or the recording ends.
    fn is_freed(&self, lifetime: &Lifetime) -> bool {
        let end = self.course.step_at(self.failure).map_or(self.course.entries, |step| step.end);
        self.course.freed(lifetime) < end
    }

    /// Whether no step came before it.
    fn is_first(&self) -> bool {
        self.lifetimes.at_start().is_empty()
            && self.course.steps.first().is_none_or(|step| step.contains(&self.failure))
    }
}
