//! Blocks that the program replaces, and gradients that it computes itself and assigns.

use std::collections::BTreeMap;

use highwater_snapshot::StackId;
use rustc_hash::FxHashSet;

use super::{Known, Pairing, alloc};
use crate::category::origin::Origin;
use crate::lifetime::Lifetime;

impl<T: Fn(usize) -> Origin> Known<'_, T> {
    /// Of the blocks from before the recording that the program frees, the state of an optimizer that it constructs anew: the first step behind
    /// makes and keeps as many blocks of each size.
    fn outdated(&self, freed: &[usize]) -> FxHashSet<usize> {
        /// Of the freed bytes: small blocks have the sizes of others by chance.
        const MIN_PERCENT: u64 = 95;
        let mut by_size: BTreeMap<u64, (u32, usize)> = BTreeMap::new();
        for &row in freed {
            let lifetime = &self.lifetimes.rows[row];
            let of = by_size.entry(lifetime.requested_bytes).or_insert((0, 0));
            *of = (of.0.max(self.course.freed(lifetime)), of.1 + 1);
        }
        if by_size.is_empty() {
            return FxHashSet::default();
        }
        // By size, the first step that keeps any, and how many.
        let mut made: BTreeMap<u64, (u32, usize)> = BTreeMap::new();
        for (row, lifetime) in self.lifetimes.rows.iter().enumerate().skip(self.lifetimes.before_recording) {
            let entry = alloc(lifetime);
            let Some(&(last, _)) = by_size.get(&lifetime.requested_bytes).filter(|of| of.0 < entry) else { continue };
            let is_state = (self.told)(row) == Origin::Optimizer;
            let Some(step) = self.course.step_at(entry).filter(|step| is_state && step.start > last) else { continue };
            if self.course.freed(lifetime) >= step.end {
                let of = made.entry(lifetime.requested_bytes).or_insert((step.start, 0));
                of.1 += usize::from(of.0 == step.start);
            }
        }
        let is_made_again = |size: u64| made.get(&size).is_some_and(|made| made.1 == by_size[&size].1);
        let bytes = |of: &dyn Fn(u64) -> bool| {
            let sizes = by_size.iter().filter(|(size, _)| of(**size));
            sizes.map(|(&size, of)| size.saturating_mul(of.1 as u64)).fold(0, u64::saturating_add)
        };
        let again = bytes(&is_made_again);
        if again == 0 || again < bytes(&|_| true) / 100 * MIN_PERCENT {
            return FxHashSet::default();
        }
        let size_of = |row: usize| self.lifetimes.rows[row].requested_bytes;
        freed.iter().copied().filter(|&row| is_made_again(size_of(row))).collect()
    }
}

impl Pairing {
    /// Blocks from before the recording that outlive the first pass, although it leaves gradients of their size, and are freed later: the
    /// program replaces them, as it may replace parameters.
    pub(super) fn find_replaced<T: Fn(usize) -> Origin>(&mut self, known: &Known<'_, T>) {
        // What is cleared is a gradient all the same: of another model, or of a pass that had begun.
        let is_cleared = |lifetime: &Lifetime| known.stacks.clears_gradients(lifetime.stack);
        let Some(pass) = known.course.passes.first().filter(|_| known.course.frees_tell) else { return };
        let leaves = |size: u64| {
            let spans = known.of_size.get(&size).map(|of| &of.spans);
            spans.is_some_and(|spans| spans.first().is_some_and(|&(alloc, _)| pass.contains(alloc)))
        };
        let rows = known.lifetimes.rows[..known.lifetimes.before_recording].iter().enumerate();
        let replaced = rows.filter(|&(row, lifetime)| {
            let freed = known.course.freed(lifetime);
            (known.told)(row) == Origin::Untold
                && freed < known.course.entries
                && freed >= pass.end
                && !is_cleared(lifetime)
                && leaves(lifetime.requested_bytes)
        });
        let replaced: Vec<usize> = replaced.map(|(row, _)| row).collect();
        self.outdated = known.outdated(&replaced);
        self.replaced.extend(replaced.into_iter().filter(|row| !self.outdated.contains(row)));
    }

    /// Gradients that the program computes and assigns: blocks that it makes as large as a parameter and that are freed as gradients are
    /// cleared, and all others from the same line. Where those from before the recording were cleared so, and no pass leaves any of their size,
    /// the ones that are made right after a pass and meet the step are made by the program.
    pub(super) fn find_assigned<T: Fn(usize) -> Origin>(&mut self, known: &Known<'_, T>) {
        let course = known.course;
        let rows = known.lifetimes.rows.iter().enumerate().skip(known.lifetimes.before_recording);
        let made: Vec<(usize, &Lifetime)> = rows
            .filter(|&(row, lifetime)| {
                (known.told)(row) == Origin::Program && self.is_parameter_size(lifetime.requested_bytes)
            })
            .collect();
        let line = |lifetime: &Lifetime| (known.stacks.place(lifetime.stack), lifetime.requested_bytes);
        let is_cleared = |lifetime: &Lifetime| course.clears(course.freed(lifetime));
        let lines: FxHashSet<(StackId, u64)> =
            made.iter().filter(|(_, lifetime)| is_cleared(lifetime)).map(|(_, lifetime)| line(lifetime)).collect();
        let assigned = made.into_iter().filter(|(_, lifetime)| {
            let (alloc, freed) = (alloc(lifetime), course.freed(lifetime));
            let of = known.of_size.get(&lifetime.requested_bytes);
            let is_missing = || {
                lines.is_empty()
                    && of.is_some_and(|of| of.gradients > 0 && of.spans.is_empty())
                    && course.is_right_after_pass(alloc)
            };
            is_cleared(lifetime)
                || ((lines.contains(&line(lifetime)) || is_missing()) && course.outlives_next_step(alloc, freed))
        });
        self.assigned = assigned.map(|(row, _)| row).collect();
    }
}
