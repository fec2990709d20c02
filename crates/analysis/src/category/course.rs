//! The course of a recording: when modules ran, when autograd, when the optimizer.

use std::ops::Range;

use highwater_snapshot::{Action, EntryTable};

use super::origin::Origin;
use crate::lifetime::{Lifetime, number};

/// One backward pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pass {
    /// The entry of its first allocation.
    pub start: u32,
    /// One past the last entry that is surely its own.
    pub sure_end: u32,
    /// One past the last entry that may be its own: more than `sure_end` where frees do not tell which thread made them.
    pub end: u32,
}

impl Pass {
    pub(crate) fn contains(&self, entry: u32) -> bool {
        (self.start..self.end).contains(&entry)
    }
}

/// What happened when.
#[derive(Clone, Debug, Default)]
pub(crate) struct Course {
    /// Backward passes, in order.
    pub(crate) passes: Vec<Pass>,
    /// Runs of the optimizer's allocations, each to the next allocation of anything else.
    pub(crate) steps: Vec<Range<u32>>,
    /// Runs of modules that are run again for backward, each to autograd's next allocation.
    pub(crate) recomputations: Vec<Range<u32>>,
    /// Entries of allocations by the program itself, in order.
    pub(crate) program: Vec<u32>,
    /// Entries of allocations by modules, in order.
    pub(crate) modules: Vec<u32>,
    /// Where a model is called right after a call of the same, in order.
    pub(crate) called_again: Vec<u32>,
    /// Where passes and steps end, in order: there the next forward pass may begin.
    pub(crate) turns: Vec<u32>,
    /// Entries at which the allocator gave up, in order.
    pub(crate) failures: Vec<u32>,
    /// Where passes begin in which the allocator gave up, in order.
    failed_passes: Vec<u32>,
    /// Entries at which the allocator gave up in a step of the optimizer, in order.
    pub(crate) failed_steps: Vec<u32>,
    /// Whether frees carry the stack of who frees: otherwise the end of a pass is a guess.
    pub(crate) frees_tell: bool,
    /// Number of entries.
    pub(crate) entries: u32,
    /// Backward passes in an iteration: more than one where gradients accumulate, or several losses take turns.
    pub(crate) period: usize,
    /// Entries that free blocks as gradients are cleared, in order.
    pub(crate) cleared: Vec<u32>,
    /// Bytes that the model is fed in an iteration before it learns from them, where it collects them.
    pub(crate) collected_bytes: Option<u64>,
}

impl Course {
    /// Reads it off the origin of every entry.
    pub(crate) fn new(
        entries: &EntryTable,
        iterations: usize,
        origin: impl Fn(usize) -> Origin,
        frees_tell: bool,
    ) -> Self {
        let mut course = Self { entries: number(entries.len()), frees_tell, ..Self::default() };
        let mut pass: Option<Pass> = None;
        let mut step: Option<u32> = None;
        let mut again: Option<u32> = None;
        // Passes before which nothing but a step of the optimizer has come since the pass before.
        let mut resumed: Vec<usize> = Vec::new();
        let mut since_pass = true;
        for (row, &action) in entries.actions().iter().enumerate() {
            let at = number(row);
            if action == Action::FREE_REQUESTED {
                if frees_tell
                    && let Some(pass) = &mut pass
                    && is_backward(origin(row))
                {
                    pass.sure_end = at + 1;
                }
                continue;
            }
            if action == Action::OOM {
                course.failures.push(at);
                if origin(row) == Origin::Optimizer {
                    course.failed_steps.push(at);
                }
                course.failed_passes.extend(pass.filter(|_| is_backward(origin(row))).map(|pass| pass.start));
            }
            if action != Action::ALLOC {
                continue;
            }
            let origin = origin(row);
            match origin {
                Origin::Module | Origin::Compiled => course.modules.push(at),
                Origin::Program => course.program.push(at),
                _ => {}
            }
            // Parameters are gathered forward and backward, and libraries work anywhere.
            if matches!(origin, Origin::Unshard | Origin::Library) {
                continue;
            }
            if is_backward(origin) {
                if pass.is_none() && !std::mem::replace(&mut since_pass, false) {
                    resumed.push(course.passes.len());
                }
                let pass = pass.get_or_insert(Pass { start: at, sure_end: at, end: at });
                pass.sure_end = at + 1;
            } else if let Some(pass) = pass.take() {
                course.end_pass(pass, at, frees_tell);
            }
            since_pass |= !is_backward(origin) && origin != Origin::Optimizer;
            if origin == Origin::Recompute {
                again.get_or_insert(at);
            } else if let Some(start) = again.take() {
                course.recomputations.push(start..at);
            }
            if origin == Origin::Optimizer {
                step.get_or_insert(at);
            } else if let Some(start) = step.take() {
                course.end_step(start, at);
            }
        }
        if let Some(pass) = pass {
            course.end_pass(pass, course.entries, frees_tell);
        }
        if let Some(start) = step {
            course.end_step(start, course.entries);
        }
        course.join_stepped(&resumed);
        course.period = course.passes.len().div_ceil(iterations.max(1)).max(1);
        course
    }

    /// Joins the passes that only steps of the optimizer part, with these steps, where there are more than programs have optimizers:
    /// hooks step each parameter while the pass runs.
    fn join_stepped(&mut self, resumed: &[usize]) {
        /// Losses in a row with an optimizer for each.
        const MOST: usize = 8;
        let runs: Vec<&[usize]> =
            resumed.chunk_by(|a, b| a + 1 == *b).filter(|run| run.len() > MOST && run[0] > 0).collect();
        for run in runs.into_iter().rev() {
            let (first, last) = (run[0] - 1, run[run.len() - 1]);
            let (start, end) = (self.passes[first].start, self.passes[last].end);
            let next = self.passes.get(last + 1).map_or(self.entries, |next| next.start);
            let step = self.steps.iter().rfind(|step| step.start < next).map_or(0, |step| step.end);
            let end = end.max(step);
            self.passes.splice(first..=last, [Pass { start, sure_end: end, end }]);
            self.turns.retain(|&turn| turn <= start || turn >= end);
        }
    }

    fn end_pass(&mut self, pass: Pass, next: u32, frees_tell: bool) {
        let end = if frees_tell { pass.sure_end } else { next };
        self.turns.push(end);
        self.passes.push(Pass { end, ..pass });
    }

    fn end_step(&mut self, start: u32, end: u32) {
        self.turns.push(end);
        self.steps.push(start..end);
    }

    /// The pass that an entry lies in.
    pub(crate) fn pass_at(&self, entry: u32) -> Option<&Pass> {
        let after = self.passes.partition_point(|pass| pass.start <= entry);
        self.passes[..after].last().filter(|pass| pass.contains(entry))
    }

    /// Whether an entry frees a block as gradients are cleared: another thread may do so while a pass runs.
    pub(crate) fn clears(&self, entry: u32) -> bool {
        self.cleared.binary_search(&entry).is_ok()
    }

    /// Whether a pass ran out of memory: what it leaves may be anything.
    pub(crate) fn has_failed(&self, pass: &Pass) -> bool {
        self.failed_passes.contains(&pass.start)
    }

    /// The first pass that begins after an entry.
    pub(crate) fn pass_after(&self, entry: u32) -> Option<&Pass> {
        self.passes.get(self.passes.partition_point(|pass| pass.start <= entry))
    }

    /// The step that an entry lies in.
    pub(crate) fn step_at(&self, entry: u32) -> Option<&Range<u32>> {
        let after = self.steps.partition_point(|step| step.start <= entry);
        self.steps[..after].last().filter(|step| step.contains(&entry))
    }

    /// Whether a block with this lifetime is alive when a step begins, lives to the end, or is cleared as gradients are.
    pub(crate) fn meets_step(&self, alloc: u32, freed: u32) -> bool {
        let next = self.steps.get(self.steps.partition_point(|step| step.start <= alloc));
        freed >= self.entries || self.clears(freed) || next.is_some_and(|step| step.start < freed)
    }

    /// Whether what comes and goes with these entries is there when the next step of the optimizer is over, or the recording.
    pub(crate) fn outlives_next_step(&self, alloc: u32, freed: u32) -> bool {
        let next = self.steps.get(self.steps.partition_point(|step| step.start <= alloc));
        freed >= next.map_or(self.entries, |step| step.end)
    }

    /// Whether the optimizer steps while a backward pass runs.
    pub(crate) fn steps_amid_pass(&self) -> bool {
        self.steps.iter().any(|step| self.pass_at(step.start).is_some())
    }

    /// Where the step ran out of memory that an entry lies in, after that entry.
    pub(crate) fn failed_step(&self, entry: u32) -> Option<u32> {
        let failure = *self.failed_steps.get(self.failed_steps.partition_point(|&failure| failure < entry))?;
        self.step_at(entry).is_some_and(|step| step.contains(&failure)).then_some(failure)
    }

    /// Whether what comes and goes with these entries is there when the optimizer's step is over that it begins in.
    pub(crate) fn outlives_step(&self, alloc: u32, freed: u32) -> bool {
        self.step_at(alloc).is_none_or(|step| freed >= step.end)
    }

    /// The entry in which the owner of a block frees it; the end of the recording if none does.
    pub(crate) fn freed(&self, lifetime: &Lifetime) -> u32 {
        lifetime.free_requested().map_or(self.entries, highwater_snapshot::EntryId::get)
    }

    /// Where the recomputation ends that an entry lies in.
    pub(crate) fn recomputed_until(&self, entry: u32) -> Option<u32> {
        let after = self.recomputations.partition_point(|run| run.start <= entry);
        self.recomputations[..after].last().filter(|run| run.contains(&entry)).map(|run| run.end)
    }

    /// The first allocation by the program itself after an entry.
    pub(crate) fn program_after(&self, entry: u32) -> Option<u32> {
        self.program.get(self.program.partition_point(|&program| program <= entry)).copied()
    }

    /// The last allocation by the program itself before an entry; the start of the recording if there is none.
    pub(crate) fn program_before(&self, entry: u32) -> u32 {
        self.program[..self.program.partition_point(|&program| program < entry)].last().copied().unwrap_or(0)
    }

    /// Where the call of a model has returned in which an entry lies: the program goes on, or calls the same model again.
    pub(crate) fn returned(&self, entry: u32) -> u32 {
        let again = self.called_again.get(self.called_again.partition_point(|&again| again <= entry)).copied();
        let returned = self.program_after(entry).into_iter().chain(again).min();
        returned.unwrap_or(self.entries)
    }

    /// Whether modules run, the program goes on, and modules run again between two entries: two calls of a model.
    pub(crate) fn meets_calls(&self, start: u32, end: u32) -> bool {
        let first = self.module_after(start);
        let between = first.and_then(|first| self.program_after(first));
        between.and_then(|between| self.module_after(between)).is_some_and(|second| second < end)
    }

    /// The first allocation by a module after an entry.
    pub(crate) fn module_after(&self, entry: u32) -> Option<u32> {
        self.modules.get(self.modules.partition_point(|&module| module <= entry)).copied()
    }

    /// Whether a module has allocated since the last turn before an entry. The turn may be the entry of the first such allocation.
    pub(crate) fn is_amid_forward(&self, entry: u32) -> bool {
        let turn = self.turn_before(entry);
        self.modules.get(self.modules.partition_point(|&module| module < turn)).is_some_and(|&module| module < entry)
    }

    /// The first time that memory runs out after an entry.
    pub(crate) fn failure_after(&self, entry: u32) -> Option<u32> {
        self.failures.get(self.failures.partition_point(|&failure| failure < entry)).copied()
    }

    /// Allocations by modules between two entries.
    pub(crate) fn modules_between(&self, start: u32, end: u32) -> usize {
        let before = self.modules.partition_point(|&module| module <= start);
        self.modules.partition_point(|&module| module < end).saturating_sub(before)
    }

    /// Whether what comes and goes with these entries is made in a forward pass when modules have run and allocate at most so often
    /// again, and its backward pass finds it.
    pub(crate) fn is_behind_layers(&self, alloc: u32, freed: u32, most: usize) -> bool {
        let pass = self.pass_after(alloc).filter(|pass| pass.start < freed);
        self.is_amid_forward(alloc + 1) && pass.is_some_and(|pass| self.modules_between(alloc, pass.start) <= most)
    }

    /// Whether the backward pass finds what comes and goes with these entries, and leaves it.
    pub(crate) fn is_held(&self, alloc: u32, freed: u32) -> bool {
        self.pass_after(alloc).is_some_and(|pass| pass.start < freed) && self.pass_at(freed).is_none()
    }

    /// Whether neither the optimizer nor a module has run since the last backward pass, and one came before.
    pub(crate) fn is_right_after_pass(&self, entry: u32) -> bool {
        let turn = self.turn_before(entry);
        self.pass_at(turn.saturating_sub(1)).is_some() && self.modules_between(turn, entry) == 0
    }

    /// Whether there is one iteration at most: nothing tells which blocks the next one would free.
    pub(crate) const fn iterates_once(&self) -> bool {
        self.passes.len() <= self.period
    }

    /// The last turn before an entry; the start of the recording if there is none.
    pub(crate) fn turn_before(&self, entry: u32) -> u32 {
        self.turns[..self.turns.partition_point(|&turn| turn <= entry)].last().copied().unwrap_or(0)
    }
}

pub(crate) fn is_backward(origin: Origin) -> bool {
    matches!(origin, Origin::Engine | Origin::Hook | Origin::Recompute)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forward_pass_is_under_way_from_its_first_allocation() {
        // A step ends where the next allocation is a module's.
        let course = Course { modules: vec![10, 14], turns: vec![10], entries: 20, ..Course::default() };
        assert_eq!([10, 11, 15].map(|entry| course.is_amid_forward(entry)), [false, true, true]);
        assert!(!Course { turns: vec![12], ..course }.is_amid_forward(13), "a module ran before the turn");
    }

    #[test]
    fn what_no_step_meets_is_of_an_inner_step() {
        let course = Course { steps: vec![10..15, 18..19], cleared: vec![8], entries: 20, ..Course::default() };
        let meets = [(2, 5), (2, 8), (2, 12), (11, 14), (16, 20)].map(|(alloc, freed)| course.meets_step(alloc, freed));
        assert_eq!(meets, [false, true, true, false, true]);
    }
}
