//! What an optimizer of the program's own constructs for the parameters, such as momenta.

use highwater_snapshot::StackId;
use rustc_hash::FxHashMap;

use super::{Keeps, Known, MAX_STATES, MIN_LEFT, OfSize, Pairing, alloc};
use crate::category::origin::Origin;

impl Pairing {
    /// What one constructor of the program's makes after the model, of each size as many blocks as there are gradients, or each time as many
    /// more; all twice as large, they are copies of half-precision weights in full precision. Where PyTorch's optimizers take steps, these
    /// are the sizes for which they keep nothing, and there are no blocks of the others: an average of the weights would have all.
    pub(super) fn find_constructed_states<T: Fn(usize) -> Origin>(&mut self, known: &Known<'_, T>) {
        let has_others = !known.course.steps.is_empty() || known.memory.keeps != Keeps::Untold;
        let first = known.lifetimes.before_recording;
        let rows = known.lifetimes.rows.iter().enumerate().skip(first);
        let built = || rows.clone().filter(|(row, _)| (known.told)(*row) == Origin::Build);
        let modules = built().filter(|(_, lifetime)| !known.stacks.is_in_constructor(lifetime.stack));
        let Some(model) = modules.map(|(_, lifetime)| alloc(lifetime)).max() else { return };
        let mut made: FxHashMap<StackId, Vec<usize>> = FxHashMap::default();
        for (row, lifetime) in built() {
            let stays = known.course.freed(lifetime) == known.course.entries;
            let constructor = known.stacks.constructor(lifetime.stack).filter(|_| alloc(lifetime) > model && stays);
            if let Some(constructor) = constructor {
                made.entry(constructor).or_default().push(row);
            }
        }
        let trained = || {
            let large =
                known.of_size.iter().filter(|(size, of)| **size >= MIN_LEFT && of.gradients > 0 && of.built > 0);
            large.filter(|(_, of)| !has_others || of.states == 0)
        };
        let is_of_others =
            |size: u64| has_others && size >= MIN_LEFT && known.of_size.get(&size).is_some_and(|of| of.states > 0);
        if has_others && !known.of_size.keys().any(|&size| is_of_others(size)) {
            return;
        }
        for rows in made.into_values() {
            let size = |row: usize| known.lifetimes.rows[row].requested_bytes;
            let mut counts: FxHashMap<u64, usize> = FxHashMap::default();
            for &row in &rows {
                *counts.entry(size(row)).or_default() += 1;
            }
            if counts.keys().any(|&size| is_of_others(size)) {
                continue;
            }
            let has_all = |width: u64, times: usize| {
                let has = |(size, of): (&u64, &OfSize)| {
                    counts.get(&size.saturating_mul(width)) == Some(&(times * of.gradients))
                };
                trained().all(has)
            };
            // In the precision of the weights, or in full precision beside half.
            let found = [1, 2].into_iter().find(|&width| (1..=MAX_STATES).any(|times| has_all(width, times)));
            if let Some(width) = found.filter(|_| trained().next().is_some()) {
                let pairs = |row: &usize| {
                    let bytes = size(*row);
                    bytes.is_multiple_of(width)
                        && known.of_size.get(&(bytes / width)).is_some_and(|of| of.gradients > 0)
                };
                self.constructed_states.extend(rows.into_iter().filter(pairs));
            }
        }
    }
}
