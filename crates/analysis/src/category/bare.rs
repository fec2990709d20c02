//! Where no stack was recorded: what an allocation is for by where it lies between the optimizer's steps.
//!
//! Activations pile up until backward begins and are gone when it ends, so it begins where the most blocks are live of
//! those that come and go between two steps.

use highwater_snapshot::{Action, EntryTable};

use super::origin::Origin;
use crate::iteration::Iterations;
use crate::lifetime::Lifetimes;
use crate::phase::Phase;

/// The origin of each entry, by its place.
pub(crate) struct Bare(Vec<Origin>);

impl Bare {
    pub(crate) fn at(&self, row: usize) -> Origin {
        self.0[row]
    }
}

/// The origins, if there are allocations and none has a stack; all untold where nothing marks the optimizer's steps.
pub(crate) fn origins(entries: &EntryTable, lifetimes: &Lifetimes, iterations: &Iterations) -> Option<Bare> {
    let mut allocations = (0..entries.len()).filter(|&row| entries.actions()[row] == Action::ALLOC).peekable();
    if allocations.peek().is_none() || allocations.any(|row| entries.stacks()[row].is_recorded()) {
        return None;
    }
    let mut origins = vec![Origin::Untold; entries.len()];
    for iteration in &iterations.rows {
        let range = iteration.entries.clone();
        let mut steps = iteration.phases.iter().filter(|run| run.phase == Phase::Optimizer);
        let Some(step) = steps.next() else { continue };
        let last = steps.next_back().map_or(step.entries.end, |run| run.entries.end);
        let begin = range.start.min(step.entries.start);
        let turn = fullest(lifetimes, begin, step.entries.start);
        origins[begin..turn].fill(Origin::Module);
        origins[turn..step.entries.start].fill(Origin::Engine);
        origins[step.entries.start..last].fill(Origin::Optimizer);
        origins[last..range.end.max(last)].fill(Origin::Module);
    }
    Some(Bare(origins))
}

/// One past the entry of a range after which the most blocks are live that are allocated and freed within it.
fn fullest(lifetimes: &Lifetimes, start: usize, end: usize) -> usize {
    let mut changes = vec![0_i32; end - start];
    let first = lifetimes.rows.partition_point(|lifetime| lifetime.alloc().is_none_or(|alloc| alloc.index() < start));
    for lifetime in &lifetimes.rows[first..] {
        let Some(alloc) = lifetime.alloc().filter(|alloc| alloc.index() < end) else { break };
        if let Some(freed) = lifetime.free_requested().filter(|freed| freed.index() < end) {
            changes[alloc.index() - start] += 1;
            changes[freed.index() - start] -= 1;
        }
    }
    let (mut live, mut most, mut at) = (0, 0, 0);
    for (row, change) in changes.iter().enumerate() {
        live += change;
        if live > most {
            (most, at) = (live, row + 1);
        }
    }
    start + at
}
